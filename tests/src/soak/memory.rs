//! The most memory that processes take.

use crate::server::peak_of;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The most that any process took that was watched, in bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Peak(Arc<AtomicU64>);

impl Peak {
    /// Watches a process to its end. The kernel keeps the peak, so only what a process takes in its last moment is missed.
    pub(super) fn watch(&self, child: &Child) {
        let (peak, process) = (self.clone(), child.id());
        std::thread::spawn(move || {
            while let Some(bytes) = peak_of(process) {
                peak.0.fetch_max(bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
