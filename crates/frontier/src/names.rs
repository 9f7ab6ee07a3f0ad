//! Is it known where a host lives when its turn comes?
//!
//! A name is asked for as soon as its host wakes up, beside what the store knows of it, and again
//! while the host rests, if its address holds no longer than until its next visit. So a visit seldom
//! waits for a name; how long it did is told with its lease.
//!
//! Not here: which of several addresses is used (`active`), and when one may be asked (`politeness`).

use std::time::Duration;

use types::{Fault, HostKey, HostState, Timestamp};

use crate::active::Phase;
use crate::host::{self, Touch};
use crate::lease::Place;
use crate::{Frontier, SLEEP_MIN};

/// An address that ends so soon after the next visit's moment is asked for before it: the visit may
/// have to wait for the pause of its address.
const RENEW_MARGIN: Duration = Duration::from_secs(5);

impl Frontier {
    /// The answer to a wish to resolve. A failure is the host's failure; its new state is
    /// returned, to be written down.
    pub fn resolved(
        &mut self,
        now: Timestamp,
        host_key: &HostKey,
        place: Place,
    ) -> Option<HostState> {
        let host = self.hosts.get_mut(host_key)?;
        host.asked = false;
        if host.phase != Phase::Resolving {
            // Ahead of its time: where nobody could tell, what is known holds, or it is asked for
            // once more when somebody waits for it.
            if !matches!(place, Place::Failed { .. }) {
                host.place = Some(place);
            }
            return None;
        }
        self.pending -= 1;
        if let Some(since) = host.nameless_since.take() {
            host.name_wait += now.since(since);
        }
        let mut changed = None;
        host.unresolved = matches!(place, Place::Failed { .. });
        if let Place::Failed { why } = place {
            let touch = Touch::Faulted {
                sent: None,
                ended: now,
                fault: Fault::Dns(why),
                retry_after: None,
                page: false,
            };
            let manners = host.manners(&self.options.politeness);
            host::learn(&mut host.state, &touch, &manners);
            changed = Some(host.state.clone());
        } else {
            host.place = Some(place);
        }
        let at = host.turn(now);
        self.schedule(now, host_key, at);
        changed
    }

    /// The host can do nothing before its name is known.
    pub(crate) fn wait_for_name(&mut self, now: Timestamp, host_key: &HostKey) {
        let Some(host) = self.hosts.get_mut(host_key) else { return };
        host.phase = Phase::Resolving;
        host.nameless_since = Some(host.state.not_before.max(now));
        if !host.asked {
            host.asked = true;
            self.wants.resolve.push(host_key.clone());
        }
    }

    /// The host's next turn is at `at`. While it rests there is time to ask for its name, if it must
    /// be asked for: a host that rests for longer gives up its place.
    pub(crate) fn renew_name(&mut self, now: Timestamp, host_key: &HostKey, at: Timestamp) {
        let Some(host) = self.hosts.get_mut(host_key) else { return };
        let soon = at.since(now) <= SLEEP_MIN;
        if soon && !host.asked && host.moves_before(at + RENEW_MARGIN) {
            host.asked = true;
            self.wants.renew.push(host_key.clone());
        }
    }
}
