//! Links that several transfers use at the same time: max-min fair shares in a fluid model.

mod filling;

use filling::Filling;

/// A link of a network, by its position in the list of capacities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// The demand of an operation on the network. All its flows run at the same rate, that of the operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Bytes per second that one flow can reach by itself; may be infinite.
    pub limit: f64,
    /// The links it uses, and how many of its flows cross each: whole numbers. Flows of a link that is listed twice
    /// add up.
    pub uses: Vec<(LinkId, f64)>,
}

/// The operations in progress and what each gets of the links.
///
/// The rates are max-min fair (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2): no operation can
/// be faster without one that is no faster than it becoming slower. An operation with neither links nor a limit has an
/// infinite rate.
///
/// # Which bits come out
///
/// Rates depend on what is in progress and on nothing else: not on the order of starts and ends, not on what else was
/// computed at the same time. Operations that are alike get the same bits. And a *folded* network, in which one link
/// stands for several alike ones and one operation for several alike ones that cross each of these links in the same
/// number of flows, gives the same bits as the network it stands for. The argument:
///
/// 1. A round of progressive filling finds the lowest level at which some link fills up or some operation reaches its
///    limit, and freezes there what is on such links or at such limits. The minimum depends on no order.
/// 2. The level at which a link fills up is a function of the link's own history: its capacity and, in ascending order,
///    each level at which some of its flows froze with how many did. Numbers of flows are whole numbers below 2^53, so
///    their sums are exact in any order and grouping. Alike links have the same history, by induction over the rounds,
///    and so has the link that stands for them.
/// 3. The level at which a link fills up never falls from one round to the next; where rounding says it does, the old
///    value stays. After a round every level is thus above that of the round, so levels ascend strictly, and a round
///    changes nothing outside of the component, of operations and links that are connected, in which something froze.
///    A component by itself goes through the rounds that it goes through as part of a larger network.
#[derive(Clone, Debug)]
pub struct SharedLinks {
    graph: Graph,
    /// The slot of each operation by its id, or `VACANT`.
    slots: Vec<u32>,
    /// Slots of operations that have ended.
    free: Vec<u32>,
    /// Slots of operations that started since rates were last settled.
    started: Vec<u32>,
    /// Links that an operation left, and others did not, since rates were last settled.
    released: Vec<u32>,
    /// The rate of the operation in each slot as last reported. Not a number before that, which equals no rate.
    rates: Vec<f64>,
    filling: Filling,
}

const VACANT: u32 = u32::MAX;

/// Who uses what.
#[derive(Clone, Debug, Default)]
struct Graph {
    links: Vec<Link>,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
struct Link {
    capacity: f64,
    /// Flows of all users together.
    flows: f64,
    users: Vec<User>,
}

/// An operation on a link.
#[derive(Clone, Copy, Debug)]
struct User {
    slot: u32,
    /// The index among the operation's uses.
    index: u32,
}

/// A slot for an operation in progress; it keeps its memory for the next one.
#[derive(Clone, Debug)]
struct Operation {
    /// `VACANT` when it has ended.
    id: u32,
    limit: f64,
    uses: Vec<Use>,
}

/// A link of an operation.
#[derive(Clone, Copy, Debug)]
struct Use {
    link: u32,
    flows: f64,
    /// The index among the link's users.
    position: u32,
}

impl SharedLinks {
    /// Links of these capacities, in bytes per second, with nothing in progress.
    ///
    /// # Panics
    ///
    /// When a capacity is not positive.
    pub fn new(capacities: Vec<f64>) -> Self {
        assert!(capacities.iter().all(|capacity| *capacity > 0.0), "capacities are positive: {capacities:?}");
        let filling = Filling::new(capacities.len());
        let links = capacities.into_iter().map(|capacity| Link { capacity, flows: 0.0, users: Vec::new() }).collect();
        Self {
            graph: Graph { links, operations: Vec::new() },
            slots: Vec::new(),
            free: Vec::new(),
            started: Vec::new(),
            released: Vec::new(),
            rates: Vec::new(),
            filling,
        }
    }

    /// Starts an operation. It has no rate until rates are settled. Memory grows with the largest id, 4 bytes for each.
    ///
    /// # Panics
    ///
    /// When the operation is in progress already, the limit is not positive, a number of flows is not whole, or a link
    /// does not exist.
    pub fn start(&mut self, operation: u32, demand: &Demand) {
        assert!(demand.limit > 0.0, "limits are positive, got {}", demand.limit);
        let id = operation as usize;
        if id >= self.slots.len() {
            self.slots.resize(id + 1, VACANT);
        }
        assert_eq!(self.slots[id], VACANT, "operation {operation} is in progress");
        let slot = self.vacant_slot();
        self.slots[id] = slot;
        self.started.push(slot);
        self.rates[slot as usize] = f64::NAN;
        self.graph.add(slot, operation, demand);
    }

    /// Ends an operation.
    ///
    /// # Panics
    ///
    /// When it is not in progress.
    pub fn end(&mut self, operation: u32) {
        let slot = self.slots.get_mut(operation as usize).map_or(VACANT, |slot| std::mem::replace(slot, VACANT));
        assert_ne!(slot, VACANT, "operation {operation} is not in progress");
        self.graph.remove(slot, &mut self.released);
        self.free.push(slot);
    }

    /// Computes the rates that starts and ends since the last call can have changed, and appends each operation whose
    /// rate did change, with its rate in bytes per second and flow, to `changed` in ascending order of ids. An
    /// operation that started is always among them.
    ///
    /// The work is that of the connected components of operations and links in which something started or ended.
    pub fn settle(&mut self, changed: &mut Vec<(u32, f64)>) {
        let first = changed.len();
        self.filling.begin(self.graph.operations.len());
        for slot in self.started.drain(..) {
            if self.graph.operations[slot as usize].id != VACANT {
                self.filling.fill_around(&self.graph, slot, &mut self.rates, changed);
            }
        }
        for link in self.released.drain(..) {
            // All users of a link are in one component.
            if let Some(user) = self.graph.links[link as usize].users.first() {
                self.filling.fill_around(&self.graph, user.slot, &mut self.rates, changed);
            }
        }
        changed[first..].sort_unstable_by_key(|(operation, _)| *operation);
    }

    fn vacant_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.graph.operations.push(Operation { id: VACANT, limit: 0.0, uses: Vec::new() });
            self.rates.push(f64::NAN);
            self.graph.operations.len() as u32 - 1
        })
    }
}

impl Graph {
    fn add(&mut self, slot: u32, id: u32, demand: &Demand) {
        let operation = &mut self.operations[slot as usize];
        operation.id = id;
        operation.limit = demand.limit;
        for (LinkId(link), flows) in demand.uses.iter().copied().filter(|(_, flows)| *flows != 0.0) {
            assert!(flows > 0.0 && flows.fract() == 0.0, "numbers of flows are whole, got {flows}");
            let users = &mut self.links[link as usize].users;
            // If the operation uses the link already, it is the last that came to it.
            if let Some(user) = users.last().filter(|user| user.slot == slot) {
                operation.uses[user.index as usize].flows += flows;
            } else {
                operation.uses.push(Use { link, flows, position: users.len() as u32 });
                users.push(User { slot, index: operation.uses.len() as u32 - 1 });
            }
            self.links[link as usize].flows += flows;
        }
    }

    /// Takes an operation off its links and appends those links that others still use.
    fn remove(&mut self, slot: u32, released: &mut Vec<u32>) {
        self.operations[slot as usize].id = VACANT;
        while let Some(Use { link, flows, position }) = self.operations[slot as usize].uses.pop() {
            let Link { flows: total, users, .. } = &mut self.links[link as usize];
            *total -= flows;
            users.swap_remove(position as usize);
            if let Some(moved) = users.get(position as usize) {
                self.operations[moved.slot as usize].uses[moved.index as usize].position = position;
            }
            if !users.is_empty() {
                released.push(link);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn demand(limit: f64, uses: &[(u32, f64)]) -> Demand {
        Demand { limit, uses: uses.iter().map(|(link, flows)| (LinkId(*link), *flows)).collect() }
    }

    fn settled(links: &mut SharedLinks) -> Vec<(u32, f64)> {
        let mut changed = Vec::new();
        links.settle(&mut changed);
        changed
    }

    /// Rates of operations 0, 1, ... in one go.
    fn rates(capacities: &[f64], demands: &[Demand]) -> Vec<f64> {
        let mut links = SharedLinks::new(capacities.to_vec());
        for (operation, demand) in (0..).zip(demands) {
            links.start(operation, demand);
        }
        settled(&mut links).into_iter().map(|(_, rate)| rate).collect()
    }

    #[test]
    fn two_flows_on_a_link_get_half_each_and_one_elsewhere_all_of_its_own() {
        let free = f64::INFINITY;
        let demands = [demand(free, &[(0, 1.0)]), demand(free, &[(1, 1.0)]), demand(free, &[(0, 1.0)])];
        assert_eq!(rates(&[10.0, 7.0], &demands), [5.0, 7.0, 5.0]);
    }

    #[test]
    fn what_a_slow_operation_leaves_goes_to_the_others() {
        let free = f64::INFINITY;
        let limited = [demand(1.0, &[(0, 2.0)]), demand(free, &[(0, 1.0)]), demand(free, &[(0, 3.0)])];
        assert_eq!(rates(&[10.0], &limited), [1.0, 2.0, 2.0]);
        let crossing = [demand(free, &[(0, 1.0), (1, 1.0)]), demand(free, &[(0, 1.0)]), demand(free, &[(1, 1.0)])];
        assert_eq!(rates(&[1.0, 2.0], &crossing), [0.5, 0.5, 1.5]);
    }

    #[test]
    fn without_links_only_the_limit_counts() {
        let demands = [demand(f64::INFINITY, &[]), demand(3.0, &[]), demand(4.0, &[(0, 0.0)])];
        assert_eq!(rates(&[1.0], &demands), [f64::INFINITY, 3.0, 4.0]);
        let unlimited = demand(f64::INFINITY, &[(0, 1.0)]);
        assert_eq!(rates(&[f64::INFINITY], &[unlimited.clone(), unlimited]), [f64::INFINITY; 2]);
    }

    #[test]
    fn a_link_that_is_listed_twice_carries_the_flows_of_both() {
        assert_eq!(rates(&[12.0], &[demand(f64::INFINITY, &[(0, 1.0), (0, 2.0)])]), [4.0]);
    }

    #[test]
    fn only_what_changes_is_reported() {
        let mut links = SharedLinks::new(vec![10.0, 10.0, 10.0]);
        let on = |link| demand(f64::INFINITY, &[(link, 1.0)]);
        links.start(5, &on(0));
        links.start(2, &on(1));
        links.start(9, &demand(1.0, &[(0, 1.0)]));
        assert_eq!(settled(&mut links), [(2, 10.0), (5, 9.0), (9, 1.0)]);
        assert_eq!(settled(&mut links), []);
        links.start(3, &on(1));
        assert_eq!(settled(&mut links), [(2, 5.0), (3, 5.0)]);
        links.end(9);
        links.start(7, &on(2));
        links.end(7);
        assert_eq!(settled(&mut links), [(5, 10.0)]);
        links.end(2);
        links.start(2, &on(1));
        assert_eq!(settled(&mut links), [(2, 5.0)], "a new operation of the same id");
    }

    #[test]
    #[should_panic(expected = "operation 4 is in progress")]
    fn an_operation_is_in_progress_once() {
        let mut links = SharedLinks::new(Vec::new());
        links.start(4, &demand(1.0, &[]));
        links.start(4, &demand(1.0, &[]));
    }

    /// The oracle: the textbook's loop, which raises all rates by the same step until something stops some of them.
    fn raised_in_steps(capacities: &[f64], demands: &[Demand]) -> Vec<f64> {
        let flows = |demand: &Demand, link: usize| -> f64 {
            demand.uses.iter().filter(|(id, _)| id.0 as usize == link).map(|(_, flows)| flows).sum()
        };
        let mut rates = vec![0.0; demands.len()];
        let mut left = capacities.to_vec();
        let mut rising = vec![true; demands.len()];
        while rising.contains(&true) {
            let load: Vec<f64> = (0..left.len())
                .map(|link| {
                    demands.iter().zip(&rising).filter(|(_, rising)| **rising).map(|(d, _)| flows(d, link)).sum()
                })
                .collect();
            let at_links = left.iter().zip(&load).filter(|(_, load)| **load > 0.0).map(|(left, load)| left / load);
            let at_limits = (0..demands.len()).filter(|i| rising[*i]).map(|i| demands[i].limit - rates[i]);
            let step = at_links.chain(at_limits).fold(f64::INFINITY, f64::min).max(0.0);
            for (link, left) in left.iter_mut().enumerate().filter(|(link, _)| load[*link] > 0.0) {
                *left -= step * load[link];
            }
            for (index, demand) in demands.iter().enumerate().filter(|(index, _)| rising[*index]).collect::<Vec<_>>() {
                rates[index] += step;
                let is_full = |link: usize| flows(demand, link) > 0.0 && left[link] <= 1e-12 * capacities[link];
                let is_at_limit = step.is_infinite() || rates[index] >= demand.limit * (1.0 - 1e-12);
                rising[index] = !is_at_limit && !(0..left.len()).any(is_full);
            }
        }
        rates
    }

    fn amount() -> impl Strategy<Value = f64> {
        prop_oneof![0.1..100.0, (1u32..30).prop_map(|tenths| f64::from(tenths) * 0.1)]
    }

    fn limit() -> impl Strategy<Value = f64> {
        prop_oneof![Just(f64::INFINITY), amount()]
    }

    fn network() -> impl Strategy<Value = (Vec<f64>, Vec<Demand>)> {
        let uses = prop::collection::vec((0u32..8, (1u32..5).prop_map(f64::from)), 0..4);
        let demands = prop::collection::vec((limit(), uses).prop_map(|(limit, uses)| demand(limit, &uses)), 0..14);
        (prop::collection::vec(amount(), 8), demands)
    }

    proptest! {
        #[test]
        fn rates_are_those_of_the_textbook(network in network()) {
            let (capacities, demands) = network;
            for (rate, oracle) in rates(&capacities, &demands).iter().zip(raised_in_steps(&capacities, &demands)) {
                let margin = 1.0 + 1e-9;
                prop_assert!(*rate <= oracle * margin && *rate * margin >= oracle, "{rate} is not {oracle}");
            }
        }

        #[test]
        fn no_link_is_overloaded_and_every_operation_has_a_reason_not_to_be_faster(network in network()) {
            let (capacities, demands) = network;
            let rates = rates(&capacities, &demands);
            let mut load = vec![0.0; capacities.len()];
            let mut fastest = vec![0.0_f64; capacities.len()];
            for (demand, rate) in demands.iter().zip(&rates) {
                for (LinkId(link), flows) in &demand.uses {
                    load[*link as usize] += flows * rate;
                    fastest[*link as usize] = fastest[*link as usize].max(*rate);
                }
            }
            for (load, capacity) in load.iter().zip(&capacities) {
                prop_assert!(*load <= capacity * (1.0 + 1e-9), "{load} on {capacity}");
            }
            for (demand, rate) in demands.iter().zip(&rates) {
                let is_bottleneck = |link: usize| {
                    load[link] >= capacities[link] * (1.0 - 1e-9) && *rate >= fastest[link] * (1.0 - 1e-9)
                };
                let is_held_back = demand.uses.iter().any(|(link, _)| is_bottleneck(link.0 as usize));
                prop_assert!(*rate <= demand.limit);
                prop_assert!(*rate >= demand.limit || is_held_back, "{rate} could be higher: {demand:?}");
            }
        }

        /// Only the operations in progress decide, to the last bit: not those before, nor their order.
        #[test]
        fn rates_do_not_depend_on_history(
            network in network(),
            turns in prop::collection::vec((0usize..14, any::<bool>()), 0..60),
        ) {
            let (capacities, demands) = network;
            let mut links = SharedLinks::new(capacities.clone());
            let mut known = BTreeMap::new();
            let mut running = BTreeMap::new();
            for (index, settle) in turns.into_iter().filter(|(index, _)| *index < demands.len()) {
                let id = index as u32;
                if running.remove(&id).is_some() {
                    links.end(id);
                    known.remove(&id);
                } else {
                    running.insert(id, &demands[index]);
                    links.start(id, &demands[index]);
                }
                if settle {
                    known.extend(settled(&mut links));
                }
            }
            known.extend(settled(&mut links));
            let mut anew = SharedLinks::new(capacities);
            for (id, demand) in running.iter().rev() {
                anew.start(*id, demand);
            }
            prop_assert_eq!(known.into_iter().collect::<Vec<_>>(), settled(&mut anew));
        }
    }

    /// Some alike links: capacity of each, and how many there are for each of the copies.
    type LinkClass = (f64, u32);

    /// Some alike operations: the limit of each, how many there are for each of the copies, and for each class of links
    /// used: which, and the distances to its copies with a number of flows.
    type OperationClass = (f64, u32, Vec<(u32, Vec<(u32, u32)>)>);

    fn folded() -> impl Strategy<Value = (u32, Vec<LinkClass>, Vec<OperationClass>)> {
        let uses = (0u32..5, prop::collection::vec((0u32..6, 1u32..4), 1..3));
        let operation = (limit(), 1u32..4, prop::collection::vec(uses, 0..4));
        (1u32..6, prop::collection::vec((amount(), 1u32..3), 5), prop::collection::vec(operation, 1..7))
    }

    proptest! {
        #[test]
        fn a_folded_network_has_the_bits_of_the_unfolded_one(folded in folded()) {
            let (copies, link_classes, operation_classes) = folded;
            // One link of each class, with the flows it has in the unfolded network.
            let small: Vec<f64> = link_classes.iter().map(|(capacity, _)| *capacity).collect();
            let few: Vec<Demand> = operation_classes.iter().map(|(limit, each, uses)| {
                let flows = |shifts: &[(u32, u32)]| f64::from(each * shifts.iter().map(|(_, flows)| flows).sum::<u32>());
                demand(*limit, &uses.iter().map(|(class, shifts)| (*class, flows(shifts))).collect::<Vec<_>>())
            }).collect();
            // All of them, in circles: copy j of an operation uses copies j + shift of a link.
            let mut large = Vec::new();
            let mut first_of_class = Vec::new();
            for (capacity, each) in &link_classes {
                first_of_class.push(large.len() as u32);
                large.extend((0..copies * each).map(|_| *capacity));
            }
            let mut many = Vec::new();
            let mut class_of = Vec::new();
            for (class, (limit, each, uses)) in operation_classes.iter().enumerate() {
                for copy in 0..copies * each {
                    let mut unfolded = Vec::new();
                    for (link_class, shifts) in uses {
                        for (shift, flows) in shifts {
                            for circle in 0..link_classes[*link_class as usize].1 {
                                let link = (copy + shift) % copies + circle * copies;
                                unfolded.push((first_of_class[*link_class as usize] + link, f64::from(*flows)));
                            }
                        }
                    }
                    many.push(demand(*limit, &unfolded));
                    class_of.push(class);
                }
            }
            let of_classes = rates(&small, &few);
            let expected: Vec<f64> = class_of.iter().map(|class| of_classes[*class]).collect();
            prop_assert_eq!(rates(&large, &many), expected);
        }
    }
}
