//! Links shared max–min fair, by weight, over both ends' NICs.
//!
//! A flow is one worker's transfers from or to one server; it crosses the
//! worker's NIC and the server's. Rates change only when a flow begins or
//! falls idle, not from one of its transfers to the next.
//!
//! While no worker's NIC can bind, every server's NIC is shared by weight, and
//! all its flows advance by one clock that counts the bytes each has been
//! given for its weight: a change costs the logarithm of what is in flight. Otherwise the
//! shares are found by progressive filling over the active flows.

use super::heap::Heap;
use std::collections::{HashMap, HashSet};

/// One worker's way from or to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The worker's NIC in this direction.
    pub worker_pipe: u32,
    /// The server's NIC in this direction.
    pub server_pipe: u32,
}

/// Bytes given so far at a rate.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    rate: f64,
    given: f64,
    at: f64,
}

impl Clock {
    fn advance(&mut self, now: f64) {
        self.given += self.rate * (now - self.at);
        self.at = now;
    }

    fn when(&self, given: f64) -> f64 {
        self.at + ((given - self.given) / self.rate).max(0.0)
    }
}

/// The flows that begin and end at one server's NIC.
#[derive(Clone, Debug)]
struct Hub {
    pipe: u32,
    active: u32,
    /// Weights of the active flows together.
    weight: f64,
    clock: Clock,
    flows: Heap,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    route: Route,
    hub: u32,
    weight: f64,
    /// Reading of the clock at which the transfer at its head is through.
    through: f64,
    /// Its place among the active ones.
    place: u32,
    clock: Clock,
}

const IDLE: u32 = u32::MAX;

/// Pipes and the flows over them. Timers are the caller's: one slot a flow,
/// then one a hub, from `base` on.
#[derive(Clone, Debug)]
pub struct Network {
    capacity: Vec<f64>,
    flows: Vec<Flow>,
    hubs: Vec<Hub>,
    base: u32,
    active: Vec<u32>,
    /// Whether every hub shares its pipe equally.
    equal: bool,
    /// Whether shares are to be found anew before time goes on.
    unsettled: bool,
    /// What the hubs' shares may add up to before a worker's NIC binds.
    room: f64,
    /// The largest weight that was seen.
    heaviest: f64,
    filling: Filling,
}

/// Working memory of progressive filling.
#[derive(Clone, Debug, Default)]
struct Filling {
    left: Vec<f64>,
    count: Vec<u32>,
    weight: Vec<f64>,
    touched: Vec<u32>,
    unfixed: Vec<u32>,
    settled: Vec<u32>,
}

impl Network {
    /// A network of `capacity` in bytes a second for each pipe.
    pub fn new(capacity: Vec<f64>, routes: &[Route], base: u32) -> Self {
        let mut hubs: Vec<Hub> = Vec::new();
        let mut hub_of: HashMap<u32, usize> = HashMap::new();
        let mut flows = Vec::with_capacity(routes.len());
        for route in routes {
            let hub = *hub_of.entry(route.server_pipe).or_insert_with(|| {
                hubs.push(Hub {
                    pipe: route.server_pipe,
                    active: 0,
                    weight: 0.0,
                    clock: Clock::default(),
                    flows: Heap::new(routes.len()),
                });
                hubs.len() - 1
            });
            flows.push(Flow {
                route: *route,
                hub: hub as u32,
                weight: 1.0,
                through: 0.0,
                place: IDLE,
                clock: Clock::default(),
            });
        }
        // The most flows that one worker's pipe may carry for one server.
        let mut room = f64::INFINITY;
        let mut same: HashMap<(u32, u32), u32> = HashMap::new();
        for route in routes {
            *same
                .entry((route.worker_pipe, route.server_pipe))
                .or_default() += 1;
        }
        let served: HashSet<u32> = routes.iter().map(|r| r.server_pipe).collect();
        for (&(pipe, _), &count) in &same {
            room = room.min(capacity[pipe as usize] / f64::from(count));
            if served.contains(&pipe) {
                // It carries a server's traffic as well: no hub is alone.
                room = 0.0;
            }
        }
        let pipes = capacity.len();
        Self {
            capacity,
            flows,
            hubs,
            base,
            active: Vec::with_capacity(routes.len()),
            equal: true,
            unsettled: false,
            room: room * (1.0 + 1e-12),
            heaviest: 1.0,
            filling: Filling {
                left: vec![0.0; pipes],
                count: vec![0; pipes],
                weight: vec![0.0; pipes],
                ..Filling::default()
            },
        }
    }

    /// Timer slots that it takes.
    pub fn slots(&self) -> u32 {
        (self.flows.len() + self.hubs.len()) as u32
    }

    /// Whether a flow is carrying something.
    pub fn is_active(&self, flow: u32) -> bool {
        self.flows[flow as usize].place != IDLE
    }

    /// The flow whose head is through when a timer goes off.
    pub fn flow_of(&self, slot: u32) -> u32 {
        let local = slot - self.base;
        match self
            .hubs
            .get((local as usize).wrapping_sub(self.flows.len()))
        {
            Some(hub) => hub.flows.first().map_or(IDLE, |(_, flow)| flow),
            None => local,
        }
    }

    /// An idle flow begins to carry a transfer, with a weight against others.
    pub fn begin(&mut self, flow: u32, bytes: f64, weight: f64, now: f64, timers: &mut Heap) {
        let index = flow as usize;
        let hub = self.flows[index].hub as usize;
        self.flows[index].place = self.active.len() as u32;
        self.active.push(flow);
        self.flows[index].weight = weight;
        self.heaviest = self.heaviest.max(weight);
        self.hubs[hub].active += 1;
        self.hubs[hub].weight += weight;
        if self.shares_equal() {
            self.share_equally(flow, now, timers);
            self.retime_hub(hub, now, |h| {
                let through = h.clock.given + bytes / weight;
                h.flows.set(flow, through);
            });
            self.time_hub(hub, timers);
        } else {
            self.share_one_by_one(now, timers);
            let clock = &mut self.flows[index].clock;
            *clock = Clock {
                rate: 0.0,
                given: 0.0,
                at: now,
            };
            self.flows[index].through = bytes;
            self.unsettled = true;
        }
    }

    /// The transfer at a flow's head is through, and the next follows at once.
    #[inline]
    pub fn follow(&mut self, flow: u32, bytes: f64, now: f64, timers: &mut Heap) {
        let f = &mut self.flows[flow as usize];
        if self.equal {
            let hub = &mut self.hubs[f.hub as usize];
            if let Some((through, _)) = hub.flows.first() {
                hub.clock.given = through;
                hub.clock.at = now;
                hub.flows.set(flow, through + bytes / f.weight);
            }
            let hub = f.hub as usize;
            self.time_hub(hub, timers);
        } else {
            f.clock.given = 0.0;
            f.clock.at = now;
            f.through = bytes;
            timers.set(self.base + flow, f.clock.when(bytes));
        }
    }

    /// A flow falls idle: its head is through, or it is given up.
    pub fn end(&mut self, flow: u32, now: f64, timers: &mut Heap) {
        let index = flow as usize;
        let place = self.flows[index].place as usize;
        self.active.swap_remove(place);
        if let Some(&moved) = self.active.get(place) {
            self.flows[moved as usize].place = place as u32;
        }
        self.flows[index].place = IDLE;
        let hub = self.flows[index].hub as usize;
        if self.equal {
            self.hubs[hub].clock.advance(now);
            self.hubs[hub].flows.clear(flow);
            self.leave(flow);
            if self.shares_equal() {
                self.retime_hub(hub, now, |_| {});
                self.time_hub(hub, timers);
            } else {
                self.share_one_by_one(now, timers);
                self.unsettled = true;
            }
        } else {
            timers.clear(self.base + flow);
            self.flows[index].clock.rate = 0.0;
            self.leave(flow);
            if self.shares_equal() {
                self.share_equally(IDLE, now, timers);
            } else {
                self.unsettled = true;
            }
        }
    }

    /// Finds the shares anew where flows began or ended. Everything that
    /// happens at one moment is settled together.
    #[inline]
    pub fn settle(&mut self, now: f64, timers: &mut Heap) {
        if self.unsettled {
            self.unsettled = false;
            if !self.equal {
                self.fill(now, timers);
            }
        }
    }

    fn leave(&mut self, flow: u32) {
        let f = &self.flows[flow as usize];
        let hub = &mut self.hubs[f.hub as usize];
        hub.active -= 1;
        // Nothing is left of rounding when nobody is.
        hub.weight = if hub.active == 0 {
            0.0
        } else {
            hub.weight - f.weight
        };
    }

    /// Whether no worker's NIC binds, whichever flows it carries.
    fn shares_equal(&self) -> bool {
        let mut sum = 0.0;
        for hub in &self.hubs {
            if hub.active > 0 {
                sum += self.capacity[hub.pipe as usize] * (self.heaviest / hub.weight).min(1.0);
            }
        }
        sum <= self.room
    }

    fn retime_hub(&mut self, hub: usize, now: f64, change: impl FnOnce(&mut Hub)) {
        let hub = &mut self.hubs[hub];
        hub.clock.advance(now);
        change(hub);
        if hub.active == 0 {
            hub.clock.given = 0.0;
            hub.clock.rate = 0.0;
        } else {
            hub.clock.rate = self.capacity[hub.pipe as usize] / hub.weight;
        }
    }

    #[inline]
    fn time_hub(&self, hub: usize, timers: &mut Heap) {
        let slot = self.base + (self.flows.len() + hub) as u32;
        let hub = &self.hubs[hub];
        match hub.flows.first() {
            Some((through, _)) => timers.set(slot, hub.clock.when(through)),
            None => timers.clear(slot),
        }
    }

    /// From rates of their own to one clock a hub; the newcomer has neither.
    fn share_equally(&mut self, newcomer: u32, now: f64, timers: &mut Heap) {
        if self.equal {
            return;
        }
        self.equal = true;
        for hub in 0..self.hubs.len() {
            self.hubs[hub].clock = Clock {
                at: now,
                ..Clock::default()
            };
        }
        for &flow in &self.active {
            if flow == newcomer {
                continue;
            }
            let f = &mut self.flows[flow as usize];
            f.clock.advance(now);
            timers.clear(self.base + flow);
            let left = (f.through - f.clock.given).max(0.0);
            self.hubs[f.hub as usize].flows.set(flow, left / f.weight);
            f.clock.rate = 0.0;
        }
        for hub in 0..self.hubs.len() {
            self.retime_hub(hub, now, |_| {});
            self.time_hub(hub, timers);
        }
    }

    /// From one clock a hub to rates of their own.
    fn share_one_by_one(&mut self, now: f64, timers: &mut Heap) {
        if !self.equal {
            return;
        }
        self.equal = false;
        for hub in 0..self.hubs.len() {
            timers.clear(self.base + (self.flows.len() + hub) as u32);
            let hub = &mut self.hubs[hub];
            hub.clock.advance(now);
            let given = hub.clock.given;
            while let Some((through, flow)) = hub.flows.first() {
                hub.flows.clear(flow);
                let f = &mut self.flows[flow as usize];
                f.through = (through - given).max(0.0) * f.weight;
                f.clock = Clock {
                    rate: 0.0,
                    given: 0.0,
                    at: now,
                };
            }
            hub.clock.rate = 0.0;
        }
    }

    /// Progressive filling: the pipe with the least for each of its flows
    /// settles them; what they leave elsewhere is shared by the others.
    fn fill(&mut self, now: f64, timers: &mut Heap) {
        let Self {
            capacity,
            flows,
            active,
            filling,
            base,
            ..
        } = self;
        let Filling {
            left,
            count,
            weight,
            touched,
            unfixed,
            settled,
        } = filling;
        touched.clear();
        unfixed.clear();
        for &flow in active.iter() {
            unfixed.push(flow);
            let route = flows[flow as usize].route;
            for pipe in [route.worker_pipe, route.server_pipe] {
                if count[pipe as usize] == 0 {
                    left[pipe as usize] = capacity[pipe as usize];
                    weight[pipe as usize] = 0.0;
                    touched.push(pipe);
                }
                count[pipe as usize] += 1;
                weight[pipe as usize] += flows[flow as usize].weight;
            }
        }
        while !unfixed.is_empty() {
            let mut least = f64::INFINITY;
            for &pipe in touched.iter() {
                if count[pipe as usize] > 0 {
                    least = least.min(left[pipe as usize] / weight[pipe as usize]);
                }
            }
            let least = least.max(0.0);
            let full =
                |pipe: u32| left[pipe as usize] / weight[pipe as usize] <= least * (1.0 + 1e-12);
            // Decide all before anything is subtracted.
            settled.clear();
            unfixed.retain(|&flow| {
                let f = &mut flows[flow as usize];
                let stays = !full(f.route.worker_pipe) && !full(f.route.server_pipe);
                if !stays {
                    settled.push(flow);
                    let rate = least * f.weight;
                    if f.clock.rate != rate {
                        f.clock.advance(now);
                        f.clock.rate = rate;
                        timers.set(*base + flow, f.clock.when(f.through));
                    }
                }
                stays
            });
            for &flow in settled.iter() {
                let f = &flows[flow as usize];
                for pipe in [f.route.worker_pipe, f.route.server_pipe] {
                    left[pipe as usize] = (left[pipe as usize] - least * f.weight).max(0.0);
                    weight[pipe as usize] -= f.weight;
                    count[pipe as usize] -= 1;
                }
            }
        }
        for &pipe in touched.iter() {
            count[pipe as usize] = 0;
        }
    }

    /// What each active flow is given now, in bytes a second.
    pub fn rates(&self) -> impl Iterator<Item = (Route, f64)> + '_ {
        self.active.iter().map(|&flow| {
            let f = &self.flows[flow as usize];
            let rate = if self.equal {
                self.hubs[f.hub as usize].clock.rate * f.weight
            } else {
                f.clock.rate
            };
            (f.route, rate)
        })
    }

    /// The pipes' capacities.
    pub fn capacity(&self) -> &[f64] {
        &self.capacity
    }
}
