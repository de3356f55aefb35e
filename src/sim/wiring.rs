//! Ways between workers and servers, sorted into networks that share no NIC.

use super::network::Route;
use super::spec::Spec;

/// A part of the network that shares no NIC with the others.
pub(super) struct PartWiring {
    pub(super) capacity: Vec<f64>,
    pub(super) routes: Vec<Route>,
    pub(super) way_of: Vec<u32>,
}

/// Every way between a worker and a server, sorted into parts.
pub(super) struct Wiring {
    pub(super) parts: Vec<PartWiring>,
    pub(super) ways: Vec<Option<(u32, u32)>>,
}

impl Wiring {
    pub(super) fn new(spec: &Spec) -> Self {
        // A pipe is one direction of a host's NIC: 2·host out, 2·host + 1 in.
        let mut group: Vec<u32> = (0..2 * spec.hosts.len() as u32).collect();
        let mut routes = Vec::new();
        for worker in &spec.workers {
            for server in &spec.servers {
                for up in 0..2 {
                    let route = (worker.host != server.host).then_some(Route {
                        worker_pipe: 2 * worker.host + (1 - up),
                        server_pipe: 2 * server.host + up,
                    });
                    if let Some(route) = route {
                        let (a, b) = (
                            root(&mut group, route.worker_pipe),
                            root(&mut group, route.server_pipe),
                        );
                        group[a.max(b) as usize] = a.min(b);
                    }
                    routes.push(route);
                }
            }
        }
        let mut parts: Vec<(u32, PartWiring)> = Vec::new();
        let mut ways = Vec::with_capacity(routes.len());
        for (way, route) in routes.into_iter().enumerate() {
            let Some(route) = route else {
                ways.push(None);
                continue;
            };
            let of = root(&mut group, route.server_pipe);
            let index = parts.iter().position(|p| p.0 == of).unwrap_or_else(|| {
                let capacity = spec
                    .hosts
                    .iter()
                    .flat_map(|h| [h.outward, h.inward])
                    .collect();
                let part = PartWiring {
                    capacity,
                    routes: Vec::new(),
                    way_of: Vec::new(),
                };
                parts.push((of, part));
                parts.len() - 1
            });
            let part = &mut parts[index].1;
            ways.push(Some((index as u32, part.routes.len() as u32)));
            part.routes.push(route);
            part.way_of.push(way as u32);
        }
        Self {
            parts: parts.into_iter().map(|p| p.1).collect(),
            ways,
        }
    }
}

fn root(group: &mut [u32], mut of: u32) -> u32 {
    while group[of as usize] != of {
        of = group[of as usize];
    }
    of
}
