//! Signs of life between the processes of a job. The launcher notices a process that dies; one that hangs or is stopped,
//! or whose host has lost its network, says nothing, and the others would wait for it for ever.
//!
//! Every process tells the first that it lives, and the first tells all others: one message a beat each way, whatever
//! the number of processes. Beats are counted, not seconds: when a whole job is suspended and goes on, nobody is lost.

use std::time::Duration;

/// Beats in the time after which a process counts as lost.
const BEATS: u32 = 10;

/// The processes that one process listens to.
pub(super) struct Heartbeat {
    peers: Vec<usize>,
    /// Per peer, the beats for which it has been silent.
    silent: Vec<u32>,
    /// The length of a beat.
    pub(super) beat: Duration,
}

impl Heartbeat {
    /// Returns what process `own` of `processes` listens to, each of which counts as lost after `timeout`.
    pub(super) fn new(own: usize, processes: usize, timeout: Duration) -> Self {
        let peers: Vec<usize> = if own == 0 { (1..processes).collect() } else { vec![0] };
        Self { silent: vec![0; peers.len()], peers, beat: timeout / BEATS }
    }

    /// Returns the processes that listen to this one: those that it listens to.
    pub(super) fn peers(&self) -> &[usize] {
        &self.peers
    }

    /// Ends a beat, in which `heard` tells whether something came from a process. Returns the first that is lost.
    pub(super) fn end_beat(&mut self, heard: impl Fn(usize) -> bool) -> Option<usize> {
        for (peer, silent) in self.peers.iter().zip(&mut self.silent) {
            *silent = if heard(*peer) { 0 } else { *silent + 1 };
        }
        self.silent.iter().position(|silent| *silent > BEATS).map(|place| self.peers[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn a_process_is_lost_once_it_was_silent_for_longer_than_the_timeout() {
        let mut first = Heartbeat::new(0, 3, TIMEOUT);
        assert_eq!((first.peers(), first.beat), (&[1, 2][..], Duration::from_secs(2)));
        for _ in 0..BEATS {
            assert_eq!(first.end_beat(|process| process == 1), None);
        }
        assert_eq!(first.end_beat(|process| process == 1), Some(2));
    }

    #[test]
    fn a_sign_of_life_begins_the_time_anew() {
        let mut other = Heartbeat::new(2, 3, TIMEOUT);
        assert_eq!(other.peers(), [0]);
        for beat in 0..10 * BEATS {
            assert_eq!(other.end_beat(|_| beat % BEATS == 0), None);
        }
    }
}
