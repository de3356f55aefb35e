//! A measured run, prepared for many predictions.

use super::free;
use crate::calibration::{Calibration, Section};
use crate::device::DeviceKind;
use crate::model::{
    Case, Class, ModelName, PredictError, Server, Timing, Timings, compute, step_of,
};
use crate::placement::{Placement, Selection};
use crate::runs::Run;
use std::sync::Arc;

/// What a phase counts against the whole step.
const PHASE: f64 = 0.5;

/// A run with every look-up done that no parameter changes.
#[derive(Debug)]
pub struct Row<'a> {
    /// The run.
    pub run: &'a Run,
    model: ModelName,
    classes: Vec<Class>,
    servers: Vec<Server>,
    workers: u32,
    nodes: u32,
    events: u64,
    sections: Vec<Section>,
    /// The class of each worker, in order.
    pub class_of: Vec<usize>,
    /// Forward and backward that were measured, for each class.
    phases: Vec<[f64; 2]>,
    layers: Vec<Arc<Timing>>,
}

impl<'a> Row<'a> {
    /// Places a run; `calibration` must know the workload where nothing else
    /// says what it computes.
    pub fn new(run: &'a Run, calibration: &Calibration) -> Result<Self, PredictError> {
        let strategy = &run.job.strategy;
        let model = ModelName::default_for(strategy)
            .ok_or_else(|| PredictError::NoModel(strategy.to_string()))?;
        let placement = Placement::select(&run.job, &run.cluster, &Selection::default())?;
        let mut timings = Timings::default();
        let case = Case::new(
            &run.job,
            &run.cluster,
            calibration,
            &placement,
            &mut timings,
        )?;
        let class_of = class_of(&case, &placement);
        let given = run.given.as_ref().map(|g| g.by_class(&case, &class_of));
        let phases = given.unwrap_or_default();
        let sections = free::of_run(run);
        let Case {
            classes,
            servers,
            workers,
            nodes,
            simulation_events,
            ..
        } = case;
        let mut row = Self {
            run,
            model,
            classes,
            servers,
            workers,
            nodes,
            events: simulation_events,
            sections,
            class_of,
            phases: phases.iter().map(|p| [p[0], p[1]]).collect(),
            layers: Vec::new(),
        };
        row.layers = row.layers(calibration);
        // Whatever is wrong shows now, not in the middle of a fit.
        step_of(model, &row.case(calibration, &row.layers))?;
        Ok(row)
    }

    /// Whether the prediction depends on a section.
    pub fn touches(&self, section: &Section) -> bool {
        let computes_on = |kind: DeviceKind| {
            self.run.job.workload.profile.is_none()
                && self.run.job.workload.has_flops
                && self.classes.iter().any(|c| c.device.kind == kind)
        };
        match section {
            Section::Accelerator => computes_on(DeviceKind::Accelerator),
            Section::Cpu => computes_on(DeviceKind::Cpu),
            other => self.sections.contains(other),
        }
    }

    /// Residuals that it gives.
    pub fn outputs(&self) -> usize {
        1 + 2 * self.phases.len()
    }

    /// What the layers say on each class.
    pub fn layers(&self, calibration: &Calibration) -> Vec<Arc<Timing>> {
        let job = &self.run.job;
        self.classes
            .iter()
            .map(|class| {
                compute::from_layers(
                    &job.workload,
                    &class.device,
                    class.batch,
                    job.precision,
                    calibration,
                )
                .map_or_else(|| Arc::clone(&class.timing), Arc::new)
            })
            .collect()
    }

    /// The case under a calibration.
    pub fn case<'c>(&'c self, calibration: &'c Calibration, layers: &[Arc<Timing>]) -> Case<'c> {
        let job = &self.run.job;
        let mut classes = self.classes.clone();
        for (class, layers) in classes.iter_mut().zip(layers) {
            let learnt =
                compute::Learnt::of(&job.workload, &class.device, job.precision, calibration);
            if let Some(learnt) = learnt {
                class.timing = Arc::new(learnt.apply(layers, class.sharing));
            }
        }
        Case {
            job,
            cluster: &self.run.cluster,
            calibration,
            classes,
            servers: self.servers.clone(),
            workers: self.workers,
            nodes: self.nodes,
            simulation_events: self.events,
        }
    }

    /// The step time by the project's own model.
    pub fn predict(&self, calibration: &Calibration) -> f64 {
        let layers = self.layers(calibration);
        let case = self.case(calibration, &layers);
        step_of(self.model, &case).map_or(f64::NAN, |step| step.time.get())
    }

    /// How far it is off: the step, then forward and backward of each class
    /// where they were measured, in units of the expected error.
    pub fn residuals(&self, calibration: &Calibration, layers: Option<&[Arc<Timing>]>) -> Vec<f64> {
        let own;
        let layers = if let Some(layers) = layers {
            layers
        } else {
            own = self.layers(calibration);
            &own
        };
        let case = self.case(calibration, layers);
        let log = |ours: f64, theirs: f64| {
            if theirs > 0.0 {
                (ours / theirs).ln() / self.run.noise
            } else {
                0.0
            }
        };
        let mut all = Vec::with_capacity(self.outputs());
        let step = step_of(self.model, &case).map_or(f64::NAN, |step| step.time.get());
        all.push(log(step, self.run.step_time_s));
        for (class, [forward, backward]) in case.classes.iter().zip(&self.phases) {
            all.push(PHASE * log(class.timing.forward_total().get(), *forward));
            all.push(PHASE * log(class.timing.backward_total().get(), *backward));
        }
        all
    }
}

/// The class of each worker, in the order of the placement.
fn class_of(case: &Case<'_>, placement: &Placement) -> Vec<usize> {
    let workers = placement.workers();
    let mut all = Vec::with_capacity(workers);
    for placed in &placement.nodes {
        let node = &case.cluster.nodes[placed.node];
        for _ in 0..placed.workers {
            let batch = case.job.batch.of_worker(all.len(), workers);
            let class = case.classes.iter().position(|c| {
                Some(&c.device) == node.device()
                    && c.batch == batch
                    && c.sharing == placed.workers
                    && c.nic == node.nic
                    && c.transport == node.transport
                    && c.hosts_server == placement.servers.contains(&placed.node)
            });
            all.push(class.unwrap_or(0));
        }
    }
    all
}
