//! `stepcast.v1.Predictor`.

use super::super::ask::{Nodes, Wrong, asked, no_plan, no_prediction, no_simulation, nodes};
use super::super::layers::deadline::Deadline;
use super::super::reply;
use super::super::state::told;
use super::super::status::{leaving, over_limit, overloaded, too_late};
use super::Handlers;
use super::scores::{StreamAsker, closed_form, scores};
use crate::cluster::Cluster;
use crate::job::Job;
use crate::model::{ModelName, Query, predict};
use crate::placement::Selection;
use crate::plan::{self, Ask, Objective, Wish};
use crate::protocol::v1::predictor_server::Predictor;
use crate::protocol::v1::{self, PredictRequest, PredictResponse};
use crate::snapshot::Snapshot;
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::{Request, Response, Status, Streaming};

/// How soon to try again when all plans are taken.
const RETRY: Duration = Duration::from_millis(100);
#[tonic::async_trait]
impl Predictor for Handlers {
    async fn predict(
        &self,
        request: Request<PredictRequest>,
    ) -> Result<Response<PredictResponse>, Status> {
        self.access
            .reading(&request, "Predictor/Predict", &self.state.metrics)?;
        let until = deadline(&request);
        let snapshot = self.state.snapshot();
        let message = request.into_inner();
        let mut wrong = Wrong::default();
        let asked = asked(
            &self.state,
            &snapshot,
            message.job.as_ref(),
            &message.model,
            &mut wrong,
        )?;
        let found = nodes(
            &self.state,
            &snapshot,
            message.nodes.as_ref(),
            "nodes",
            &mut wrong,
        )?;
        let (asked, found) = wrong.or(asked.zip(found))?;
        if too_late_at(until) {
            return Err(too_late());
        }
        let workers = workers(message.nodes.as_ref());
        let simple = message.baseline.is_empty() && asked.model != Some(ModelName::Simulation);
        let prediction = match found {
            Nodes::Known(nodes) if simple => asked
                .predict(&snapshot, &nodes, workers)
                .map_err(|error| no_prediction(&error))?,
            found => {
                let baseline = message.baseline;
                let events = self.state.limits.simulation_events;
                self.heavy(move || {
                    let (cluster, selection) = selection(&snapshot, found, workers);
                    let query = Query {
                        job: &asked.job,
                        cluster: &cluster,
                        selection: &selection,
                        model: asked.model,
                        baseline: Some(baseline.as_str()).filter(|b| !b.is_empty()),
                        calibration: &snapshot.calibration,
                        simulation_events: Some(events),
                    };
                    predict(&query).map_err(|error| no_prediction(&error))
                })
                .await?
            }
        };
        Ok(Response::new(PredictResponse {
            prediction: Some(reply::prediction(prediction)),
        }))
    }

    async fn predict_batch(
        &self,
        request: Request<v1::PredictBatchRequest>,
    ) -> Result<Response<v1::PredictBatchResponse>, Status> {
        self.access
            .reading(&request, "Predictor/PredictBatch", &self.state.metrics)?;
        let until = deadline(&request);
        let snapshot = self.state.snapshot();
        let message = request.into_inner();
        let asked = closed_form(&self.state, &snapshot, message.job.as_ref(), &message.model)?;
        let scores = scores(&self.state, &snapshot, &asked, &message.sets, until)?;
        Ok(Response::new(v1::PredictBatchResponse { scores }))
    }

    type PredictStreamStream =
        Pin<Box<dyn Stream<Item = Result<v1::PredictStreamResponse, Status>> + Send>>;

    async fn predict_stream(
        &self,
        request: Request<Streaming<v1::PredictStreamRequest>>,
    ) -> Result<Response<Self::PredictStreamStream>, Status> {
        self.access
            .reading(&request, "Predictor/PredictStream", &self.state.metrics)?;
        let until = deadline(&request);
        let state = Arc::clone(&self.state);
        let draining = state.draining.subscribe();
        let asker = StreamAsker {
            state,
            job: None,
            until,
        };
        let answers = futures::stream::unfold(
            Some((request.into_inner(), asker, draining)),
            |going| async move {
                let (mut requests, mut asker, mut draining) = going?;
                let next = tokio::select! {
                    next = requests.next() => next?,
                    () = told(&mut draining) => Err(leaving()),
                };
                match next.and_then(|message| asker.answer(&message)) {
                    Ok(answer) => Some((Ok(answer), Some((requests, asker, draining)))),
                    Err(status) => Some((Err(status), None)),
                }
            },
        );
        Ok(Response::new(Box::pin(answers)))
    }

    async fn curve(
        &self,
        request: Request<v1::CurveRequest>,
    ) -> Result<Response<v1::CurveResponse>, Status> {
        self.access
            .reading(&request, "Predictor/Curve", &self.state.metrics)?;
        let message = request.into_inner();
        let question = self.question(
            message.job.as_ref(),
            message.nodes.as_ref(),
            &message.model,
            false,
        )?;
        let limit = self.state.limits.curve_workers;
        let wanted = message.max_workers as usize;
        if wanted > limit {
            return Err(over_limit(
                "TOO_MANY_POINTS",
                "workers",
                wanted,
                limit,
                "--max-curve-workers",
            ));
        }
        let most = question.workers.unwrap_or(limit).min(limit);
        let most = if wanted > 0 { wanted.min(most) } else { most };
        let curve = self
            .heavy(move || plan::curve(question.ask(Some(most))).map_err(|e| no_plan(&e)))
            .await?;
        Ok(Response::new(v1::CurveResponse {
            points: curve.points.into_iter().map(reply::prediction).collect(),
            knee_workers: curve.knee as u32,
            saturation_workers: curve.saturation.unwrap_or(0) as u32,
        }))
    }

    async fn recommend(
        &self,
        request: Request<v1::RecommendRequest>,
    ) -> Result<Response<v1::RecommendResponse>, Status> {
        self.access
            .reading(&request, "Predictor/Recommend", &self.state.metrics)?;
        let message = request.into_inner();
        let mut wrong = Wrong::default();
        let positive = |field: &str, value: f64, wrong: &mut Wrong| {
            if !value.is_finite() || value < 0.0 {
                wrong.add(
                    field,
                    format!("found {value}, expected a number above zero"),
                );
            }
            Some(value).filter(|v| *v > 0.0)
        };
        let wish = Wish {
            objective: match v1::Objective::try_from(message.objective) {
                Ok(v1::Objective::Efficiency) => Objective::Efficiency,
                Ok(v1::Objective::Cost) => Objective::Cost,
                Ok(v1::Objective::Unspecified | v1::Objective::Speed) => Objective::Speed,
                Err(_) => {
                    wrong.add("objective", format!("no objective {}", message.objective));
                    Objective::Speed
                }
            },
            target_speedup: positive("target_speedup", message.target_speedup, &mut wrong),
            min_marginal_gain: positive("min_marginal_gain", message.min_marginal_gain, &mut wrong),
        };
        wrong.or(Some(()))?;
        let free = !message.include_taken;
        let question = self.question(
            message.job.as_ref(),
            message.nodes.as_ref(),
            &message.model,
            free,
        )?;
        let asked_for = (message.max_workers > 0).then_some(message.max_workers as usize);
        let most = asked_for.or(question.workers);
        let found = self
            .heavy(move || plan::recommend(question.ask(most), &wish).map_err(|e| no_plan(&e)))
            .await?;
        Ok(Response::new(v1::RecommendResponse {
            nodes: found.nodes,
            price_per_hour: found.price_per_hour,
            prediction: Some(reply::prediction(found.prediction)),
        }))
    }

    async fn tune(
        &self,
        request: Request<v1::TuneRequest>,
    ) -> Result<Response<v1::TuneResponse>, Status> {
        self.access
            .reading(&request, "Predictor/Tune", &self.state.metrics)?;
        let message = request.into_inner();
        let question = self.question(
            message.job.as_ref(),
            message.nodes.as_ref(),
            &message.model,
            false,
        )?;
        let (_, suggestions) = self
            .heavy(move || {
                let selection = Selection {
                    nodes: question.named.clone(),
                    workers: question.workers,
                };
                plan::tune(question.ask(None), &selection).map_err(|e| no_plan(&e))
            })
            .await?;
        Ok(Response::new(v1::TuneResponse {
            suggestions: suggestions.into_iter().map(reply::suggestion).collect(),
        }))
    }
}

/// A question to plan with, which owns what it is about.
struct Question {
    job: Job,
    model: Option<ModelName>,
    cluster: Arc<Cluster>,
    named: Option<Vec<String>>,
    workers: Option<usize>,
    snapshot: Arc<Snapshot>,
}

impl Question {
    fn ask(&self, max_workers: Option<usize>) -> Ask<'_> {
        Ask {
            job: &self.job,
            cluster: &self.cluster,
            calibration: &self.snapshot.calibration,
            model: self.model,
            nodes: self.named.as_deref(),
            max_workers,
            baseline: None,
        }
    }
}

impl Handlers {
    fn question(
        &self,
        job: Option<&v1::Job>,
        set: Option<&v1::NodeSet>,
        model: &str,
        free: bool,
    ) -> Result<Question, Status> {
        let snapshot = self.state.snapshot();
        let mut wrong = Wrong::default();
        let asked = asked(&self.state, &snapshot, job, model, &mut wrong)?;
        if let Some(asked) = &asked {
            no_simulation(asked, &mut wrong);
        }
        let found = nodes(&self.state, &snapshot, set, "nodes", &mut wrong)?;
        let (asked, found) = wrong.or(asked.zip(found))?;
        let open = set.is_none_or(|s| {
            s.names.is_empty() && s.label_selector.is_empty() && s.nodes.is_empty()
        });
        let inventory = if free {
            &snapshot.free
        } else {
            &snapshot.cluster
        };
        let (cluster, named) = match found {
            Nodes::Own(cluster) => (Arc::from(cluster), None),
            Nodes::Known(_) if open => (Arc::clone(inventory), None),
            Nodes::Known(nodes) => {
                let name = |i: u32| snapshot.cluster.nodes[i as usize].name.clone();
                (
                    Arc::clone(inventory),
                    Some(nodes.into_iter().map(name).collect()),
                )
            }
        };
        Ok(Question {
            job: asked.job.clone(),
            model: asked.model,
            cluster,
            named,
            workers: workers(set),
            snapshot,
        })
    }

    /// Runs what takes long where it holds up nobody, a few at a time.
    async fn heavy<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let permit = Arc::clone(&self.state.heavy)
            .try_acquire_owned()
            .map_err(|_| overloaded(RETRY))?;
        tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        })
        .await
        .map_err(|error| {
            tracing::error!(%error, "a plan panicked");
            Status::internal("a bug in the server ended this call")
        })?
    }
}

fn selection(
    snapshot: &Snapshot,
    found: Nodes,
    workers: Option<usize>,
) -> (Arc<Cluster>, Selection) {
    match found {
        Nodes::Own(cluster) => (
            Arc::from(cluster),
            Selection {
                nodes: None,
                workers,
            },
        ),
        Nodes::Known(nodes) => {
            let name = |i: u32| snapshot.cluster.nodes[i as usize].name.clone();
            let names = nodes.into_iter().map(name).collect();
            (
                Arc::clone(&snapshot.cluster),
                Selection {
                    nodes: Some(names),
                    workers,
                },
            )
        }
    }
}

pub(super) fn workers(set: Option<&v1::NodeSet>) -> Option<usize> {
    set.map(|s| s.workers as usize).filter(|&w| w > 0)
}

fn deadline<T>(request: &Request<T>) -> Option<Instant> {
    request.extensions().get::<Deadline>().map(|d| d.0)
}

pub(super) fn too_late_at(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}
