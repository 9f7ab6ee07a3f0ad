//! Names are known when they are needed.

use std::time::Duration;

use crate::desk::{Desk, at};
use lycosa_frontier::{Place, Touch, Wake};
use types::HostKey;

#[test]
fn a_name_is_looked_up_beside_the_store_and_again_while_its_host_rests() {
    let mut desk = Desk::new(|_| {});
    let a = HostKey::new("a.test");
    let place = |until| {
        let addresses = vec!["192.0.2.1".parse().unwrap()];
        Place::Addresses { addresses, until }
    };
    for n in 0..3 {
        desk.add(at(0), &format!("http://a.test/{n}"), 0);
    }
    // Both questions at once, and the name is the later to come.
    let wants = desk.frontier.wants(at(0));
    assert_eq!((wants.refill.len(), &wants.resolve), (1, &vec![a.clone()]));
    let tasks = desk.disk[&a].clone();
    desk.frontier.refilled(at(20), &a, tasks, false, Some(Wake::default()));
    assert!(desk.frontier.wants(at(20)).is_empty(), "it is being asked for");
    desk.frontier.resolved(at(50), &a, place(at(2_000)));
    let first = desk.next(at(50)).unwrap();
    assert_eq!(first.name_wait, Duration::from_millis(30), "after its state was there");

    // The address will be gone soon after the next visit's moment: that is time enough to ask.
    desk.end(
        &first,
        at(100),
        &Touch::Answered { sent: at(60), ended: at(100), status: 200, page: true },
    );
    let wants = desk.frontier.wants(at(100));
    assert_eq!((wants.resolve.len(), &wants.renew), (0, &vec![a.clone()]));
    desk.frontier.resolved(at(150), &a, place(at(900_000)));
    let second = desk.next(at(1_110)).unwrap();
    assert_eq!(second.name_wait, Duration::ZERO);
    desk.answer(&second, at(1_200));
    assert!(desk.frontier.wants(at(1_200)).is_empty(), "it holds for long");
}

#[test]
fn a_name_that_nobody_could_renew_holds_until_its_end() {
    let mut desk = Desk::new(|_| {});
    let a = HostKey::new("a.test");
    let addresses = vec!["192.0.2.1".parse().unwrap()];
    desk.places.insert(a.clone(), Place::Addresses { addresses, until: at(3_000) });
    for n in 0..4 {
        desk.add(at(0), &format!("http://a.test/{n}"), 0);
    }
    let first = desk.next(at(0)).unwrap();
    desk.answer(&first, at(10));
    desk.places.insert(a, Place::Failed { why: "no answer".into() });
    desk.serve(at(20));
    let second = desk.next(at(1_020)).unwrap();
    assert!(second.address.is_some(), "the old answer still holds");
    desk.answer(&second, at(1_100));
    let third = desk.next(at(2_110)).unwrap();
    desk.answer(&third, at(2_200));
    assert!(desk.next(at(3_210)).is_none(), "now it is the host's failure");
    assert_eq!(desk.frontier.wake_at(at(3_210)), Some(at(4_220)));
}
