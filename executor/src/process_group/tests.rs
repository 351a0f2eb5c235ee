//! Every collective against a slow obvious one, over threads and over processes × threads.

mod loopback;
mod twin;

use super::*;
pub(crate) use loopback::run_processes;
use proptest::prelude::*;
use twin::{Case, collectives, expected, messages};

fn values<T: Send, E: Send + std::fmt::Display + std::fmt::Debug>(
    size: usize,
    work: impl Fn(ProcessGroup) -> Result<T, E> + Sync,
) -> Vec<T> {
    run_ranks(&World::threads(size), work).into_iter().map(|result| result.expect("no rank fails")).collect()
}

/// Over what a case runs.
#[derive(Clone, Copy, Debug)]
struct Layout {
    processes: usize,
    /// Elements that one operation between processes moves.
    limit: usize,
}

fn cases() -> impl Strategy<Value = (Layout, Case)> {
    let layouts = prop_oneof![(Just(1usize), 1..6usize), (2..4usize, 1..3usize), (Just(5), Just(1))];
    let length = prop_oneof![0..4usize, 60..70usize, 0..300usize];
    layouts.prop_flat_map(move |(processes, threads)| {
        let ranks = processes * threads;
        (
            proptest::collection::vec(0..3usize, ranks),
            length.clone(),
            proptest::collection::vec(length.clone(), ranks),
            prop_oneof![Just(Reduction::Sum), Just(Reduction::Mean)],
            prop_oneof![Just(Wire::F32), Just(Wire::F16), Just(Wire::Bf16)],
            prop_oneof![Just(7usize), Just(100), Just(LARGE)],
        )
            .prop_map(move |(colours, length, lengths, reduction, wire, limit)| {
                (
                    Layout { processes, limit: limit.max(ranks) },
                    Case { threads, colours, length, lengths, reduction, wire },
                )
            })
    })
}

const LARGE: usize = 1 << 20;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_collective_is_the_obvious_one((Layout { processes, limit }, case) in cases()) {
        let results = if processes == 1 {
            run_ranks(&World::threads(case.threads), |world| collectives(&case, &world))
        } else {
            run_processes(processes, case.threads, limit, |world| collectives(&case, &world))
        };
        for (rank, result) in results.into_iter().enumerate() {
            prop_assert_eq!(result.expect("no rank fails"), expected(&case, rank), "rank {}", rank);
        }
    }

    #[test]
    fn shares_are_equal_and_cover_everything(length in 0..200usize, size in 1..9usize) {
        let shares: Vec<_> = (0..size).map(|rank| share(length, size, rank)).collect();
        prop_assert_eq!(shares[0].start, 0);
        prop_assert_eq!(shares[size - 1].end, length);
        prop_assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() >= pair[1].len()));
        prop_assert!(shares[0].len() - shares[size - 1].len() <= 1);
    }
}

#[test]
fn a_large_buffer_takes_the_way_of_large_buffers_in_every_layout() {
    for (processes, threads) in [(2, 1), (2, 2), (3, 2)] {
        let ranks = processes * threads;
        let case = Case {
            threads,
            colours: vec![0; ranks],
            length: 40_001,
            lengths: vec![20_003; ranks],
            reduction: Reduction::Mean,
            wire: Wire::F32,
        };
        let results = run_processes(processes, threads, LARGE, |world| collectives(&case, &world));
        for (rank, result) in results.into_iter().enumerate() {
            assert!(result.expect("no rank fails") == expected(&case, rank), "rank {rank} of {processes} × {threads}");
        }
    }
}

#[test]
fn messages_keep_their_order_within_a_tag_and_a_group() {
    assert_eq!(values(3, |world| messages(&world)), [true; 3]);
    for (processes, threads) in [(3, 1), (2, 2)] {
        let results = run_processes(processes, threads, LARGE, |world| messages(&world));
        assert!(results.iter().all(|result| matches!(result, Ok(true))), "{results:?}");
    }
}

#[test]
fn split_groups_work_apart_from_each_other() {
    let work = |world: ProcessGroup| {
        let part = world.split(world.rank() % 2)?;
        let again = world.split(world.rank() / 3)?;
        let inner = part.split(usize::from(part.rank() == 0))?;
        let mut sum = vec![world.rank() as f32];
        part.all_reduce(&mut sum, Reduction::Sum)?;
        let mut second = vec![world.rank() as f32];
        again.all_reduce(&mut second, Reduction::Sum)?;
        let mut third = vec![world.rank() as f32];
        inner.all_reduce(&mut third, Reduction::Sum)?;
        assert_eq!(part.world_ranks()[part.rank()], world.rank());
        Ok::<_, GroupError>((part.rank(), part.size(), sum[0], second[0], third[0]))
    };
    for results in [run_ranks(&World::threads(6), work), run_processes(3, 2, LARGE, work)] {
        assert_eq!(results[3], Ok((1, 3, 9.0, 12.0, 8.0)));
        assert_eq!(results[4], Ok((2, 3, 6.0, 12.0, 6.0)));
    }
}

#[test]
fn a_rank_that_fails_or_panics_ends_the_wait_of_the_others() {
    let work = |world: ProcessGroup| {
        let part = world.split(usize::from(world.rank() > 0))?;
        match world.rank() {
            0 => Err(GroupError::RankFailed { rank: 0, reason: "no memory".into() }),
            1 => part.recv(1, Tag(0)).map(|_| ()),
            2 => world.all_reduce(&mut vec![1.0], Reduction::Sum),
            // Of a group whose first rank waits elsewhere.
            _ => part.barrier(),
        }
    };
    for results in
        [run_ranks(&World::threads(4), work), run_processes(4, 1, LARGE, work), run_processes(2, 2, LARGE, work)]
    {
        for result in &results[1..] {
            let Err(RankError::Failed(error)) = result else { panic!("{result:?}") };
            assert!(error.to_string().contains("no memory"), "{error}");
        }
    }
    let results = run_ranks(&World::threads(2), |group| {
        assert!(group.rank() == 0, "this rank falls over");
        group.all_reduce(&mut vec![1.0], Reduction::Sum)
    });
    let told = GroupError::RankFailed { rank: 1, reason: "it panicked".into() };
    assert_eq!(results[0], Err(RankError::Failed(told)));
    assert_eq!(results[1], Err(RankError::Panicked("this rank falls over".into())));
}

#[test]
fn buffers_of_different_lengths_are_refused_on_every_rank() {
    for length in [2, 200] {
        let work = |group: ProcessGroup| {
            group.all_reduce(&mut vec![0.0; length + usize::from(group.rank() == 1)], Reduction::Sum)
        };
        for results in
            [run_ranks(&World::threads(2), work), run_processes(2, 1, LARGE, work), run_processes(2, 2, LARGE, work)]
        {
            assert!(results.iter().all(Result::is_err), "{results:?}");
            let told = results.iter().any(|result| format!("{result:?}").contains("LengthMismatch"));
            assert!(told, "{results:?}");
        }
    }
}

#[test]
fn a_rank_that_came_late_makes_the_others_wait() {
    let waited = values(2, |group| {
        if group.rank() == 1 {
            // Until rank 0 is at the barrier for good, it has nothing to receive.
            while group.shared.barrier.waiting() == 0 {
                std::thread::yield_now();
            }
        }
        group.barrier()?;
        let before = group.waited_s();
        group.send(1 - group.rank(), Tag(0), vec![1.0])?;
        group.recv(1 - group.rank(), Tag(0))?;
        Ok::<_, GroupError>((before, group.split(0)?.waited_s() >= before))
    });
    assert!(waited[0].0 > 0.0, "{waited:?}");
    assert!(waited.iter().all(|(_, shared)| *shared));
}

#[test]
fn waiting_that_is_counted_apart_is_not_the_worlds() {
    let waited = values(2, |world| {
        let apart = world.split(0)?.counted_apart();
        let before = world.waited_s();
        if apart.rank() == 1 {
            while apart.shared.barrier.waiting() == 0 {
                std::thread::yield_now();
            }
        }
        apart.barrier()?;
        Ok::<_, GroupError>((apart.waited_s(), world.waited_s() - before))
    });
    assert!(waited[0].0 > 0.0 && waited.iter().all(|(_, of_world)| *of_world <= 0.0), "{waited:?}");
}

#[test]
fn the_ranks_of_a_world_are_told_where_they_live() {
    let world = World::threads(3);
    assert_eq!((world.ranks(), world.local(), world.is_root(), world.processes()), (3, 0..3, true, 1));
    assert_eq!(world.ranks_on_host(), 3);
    assert!(world.threads_per_rank() >= 1);
    let ranks = run_ranks(&world, |group| Ok::<_, GroupError>((group.rank(), group.world_rank())));
    assert_eq!(ranks, [Ok((0, 0)), Ok((1, 1)), Ok((2, 2))]);
}

#[test]
#[cfg(not(feature = "mpi"))]
fn without_mpi_the_launcher_says_what_to_install() {
    let error = launch(Launcher::Mpi { heartbeat_timeout: std::time::Duration::from_secs(1) }, 2)
        .map(|_| ())
        .expect_err("it was not built");
    assert_eq!(error, LaunchError::NotBuilt);
    assert!(error.hint().contains("libopenmpi-dev"), "{}", error.hint());
}
