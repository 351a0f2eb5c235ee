//! Max-min fair shares of links, by the textbook (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2).

use trainyard_sim::Phase;

/// The rate of each of some phases whose bytes move at the same time, in bytes per second of one flow. Links carry
/// `capacities` in bytes per second.
///
/// All rates rise together until the first link is full or the first phase is at its own limit. What that holds back
/// stays as it is, and the others rise on.
pub(crate) fn max_min(capacities: &[f64], phases: &[&Phase]) -> Vec<f64> {
    let mut rates: Vec<Option<f64>> = vec![None; phases.len()];
    // What flows that stay as they are take of each link, and how many flows still rise on it.
    let (mut taken, mut rising) = (vec![0.0; capacities.len()], vec![0.0; capacities.len()]);
    for (link, flows) in phases.iter().flat_map(|phase| &phase.uses) {
        rising[link.0 as usize] += flows;
    }
    while rates.contains(&None) {
        let full_at: Vec<f64> = (0..capacities.len())
            .map(
                |link| {
                    if rising[link] > 0.0 { (capacities[link] - taken[link]) / rising[link] } else { f64::INFINITY }
                },
            )
            .collect();
        let held_at = |phase: &Phase| {
            let crossed = phase.uses.iter().filter(|(_, flows)| *flows > 0.0);
            crossed.map(|(link, _)| full_at[link.0 as usize]).fold(phase.limit, f64::min)
        };
        let rise = |index: &usize| rates[*index].is_none();
        let still: Vec<usize> = (0..phases.len()).filter(rise).collect();
        let level = still.iter().map(|index| held_at(phases[*index])).fold(f64::INFINITY, f64::min);
        let held: Vec<usize> = still.into_iter().filter(|index| held_at(phases[*index]) <= level).collect();
        let mut stay = vec![0.0; capacities.len()];
        for index in held {
            rates[index] = Some(level);
            for (link, flows) in &phases[index].uses {
                stay[link.0 as usize] += flows;
            }
        }
        for link in (0..capacities.len()).filter(|link| stay[*link] > 0.0) {
            taken[link] += level * stay[link];
            rising[link] -= stay[link];
        }
    }
    rates.into_iter().flatten().collect()
}
