//! How many visits may be under way, as workers come and go?

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Places for visits; a shard's owner takes one for each lease.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

impl Places {
    pub(super) fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0)
    }

    pub(super) fn add(&self, places: usize) {
        self.0.add_permits(places);
    }

    /// So many are nobody's: those that are held come back one by one, and go as well.
    pub(super) fn retire(&self, places: usize) {
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let slots = self.semaphore();
        if let Ok(free) = self.semaphore().try_acquire_many_owned(places) {
            free.forget();
        } else if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Ok(places) = slots.acquire_many_owned(places).await {
                    places.forget();
                }
            });
        }
    }
}
