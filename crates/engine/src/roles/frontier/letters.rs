//! How does an owner write to another, so that nothing is lost and nothing counts twice?
//!
//! Letters lie in the outbox since their visit was committed. They are handed over in order, one
//! envelope at a time for each receiver, and crossed off when he has committed them. If either
//! dies in between they are sent again, and the receiver ignores what he knows.

use frontier::RobotsErrand;
use ports::shard_store::{Arrival, Letter, LetterBody};
use tokio::sync::oneshot;
use types::ShardId;

use super::{Envelope, LETTERS_MAX, Note, Owner};
use crate::keeper::Job;
use crate::stages::store::RobotsNews;

impl Owner {
    pub(super) fn receive(
        &mut self,
        from: ShardId,
        letters: Vec<Letter>,
        taken: oneshot::Sender<()>,
    ) {
        let now = self.now();
        for letter in letters {
            let number = Some((from, letter.seq));
            match letter.body {
                LetterBody::Links(links) => {
                    self.group.arrivals.push(Arrival { letter: number, links, robots: None });
                }
                LetterBody::RobotsAsk { origin, url, hops } => {
                    self.frontier.ask_robots(now, RobotsErrand { origin, url, hops });
                    // The letter is crossed off; if we die, its sender asks again in time.
                    self.group.arrivals.push(Arrival { letter: number, ..Arrival::default() });
                }
                LetterBody::RobotsAnswer { origin, found } => {
                    self.group.robots.push(RobotsNews { letter: number, origin, found });
                }
            }
        }
        self.envelopes.push(Envelope::Plain(taken));
        self.group_since.get_or_insert(now);
    }

    pub(super) async fn send_letters(&mut self) {
        let ready: Vec<ShardId> = self
            .post
            .iter()
            .filter(|(_, post)| post.waiting && !post.busy)
            .map(|(to, _)| *to)
            .collect();
        for to in ready {
            let post = self.post.entry(to).or_default();
            post.waiting = false;
            post.busy = true;
            self.keeper.submit(Job::Letters { to, after: 0, limit: LETTERS_MAX }).await;
        }
    }

    /// Hands letters to their owner; they are crossed off when he has committed them.
    pub(super) async fn hand_over(&mut self, to: ShardId, letters: Vec<Letter>) {
        let post = self.post.entry(to).or_default();
        let Some(last) = letters.last().map(|letter| letter.seq) else {
            post.busy = false;
            return;
        };
        post.waiting |= letters.len() == LETTERS_MAX;
        let owner = self.owners[usize::from(to.0)].clone();
        let delivered = self.delivered_to.clone();
        let from = self.shard;
        // A task, because the other owner may be waiting for us at this moment.
        tokio::spawn(async move {
            let (taken, answer) = oneshot::channel();
            if owner.send(Note::Letters { from, letters, taken }).await.is_ok()
                && answer.await.is_ok()
            {
                // Our owner is gone only when the crawl is over; the letters stay in the outbox.
                let _ = delivered.send((to, last)).await;
            }
        });
    }
}
