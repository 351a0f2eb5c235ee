//! Messages on their way to the ranks of one process.

use super::failure::{FAILURE_CHECK, Failure};
use super::link::Payload;
use super::{GroupError, UNPOISONED, lock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex};

/// The key of a message to one rank: each key has its own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Envelope {
    /// The group they are sent in.
    pub(super) group: u64,
    /// The sender, numbered in the whole job.
    pub(super) from: usize,
    /// The number by which sender and receiver know the message.
    pub(super) channel: u64,
}

/// The messages that one rank has not received yet.
#[derive(Default)]
pub(super) struct Inbox {
    messages: Mutex<BTreeMap<Envelope, VecDeque<Payload>>>,
    arrived: Condvar,
}

impl Inbox {
    /// Adds a message.
    pub(super) fn deliver(&self, envelope: Envelope, message: Payload) {
        lock(&self.messages).entry(envelope).or_default().push_back(message);
        // Several threads of a rank may wait for different messages.
        self.arrived.notify_all();
    }

    /// Returns the oldest message of this kind, if there is one.
    pub(super) fn take(&self, envelope: Envelope) -> Option<Payload> {
        take(&mut lock(&self.messages), envelope)
    }

    /// Returns the oldest message of this kind; waits for it.
    ///
    /// # Errors
    ///
    /// When a rank has failed.
    pub(super) fn wait(&self, envelope: Envelope, failure: &Failure) -> Result<Payload, GroupError> {
        let mut messages = lock(&self.messages);
        loop {
            failure.check()?;
            if let Some(message) = take(&mut messages, envelope) {
                return Ok(message);
            }
            messages = self.arrived.wait_timeout(messages, FAILURE_CHECK).expect(UNPOISONED).0;
        }
    }
}

fn take(messages: &mut BTreeMap<Envelope, VecDeque<Payload>>, envelope: Envelope) -> Option<Payload> {
    let queue = messages.get_mut(&envelope)?;
    let message = queue.pop_front();
    // Tags may be used once each.
    if queue.is_empty() {
        messages.remove(&envelope);
    }
    message
}
