//! An evaluation as JSON and CSV.

use crate::cli::output;
use crate::evaluate::{Errors, Judged, Report, Way};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
pub(super) struct ReportView {
    groups: Vec<GroupView>,
    overall: GroupView,
    baselines: BTreeMap<&'static str, BaselineView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<RunView>,
    unanswered: Vec<UnansweredView>,
    /// Whether fits began from the priors.
    from_priors: bool,
}

#[derive(Serialize)]
struct GroupView {
    group: String,
    #[serde(flatten)]
    errors: ErrorsView,
    /// Share of the runs within their 90 % interval.
    coverage: f64,
}

#[derive(Serialize)]
struct ErrorsView {
    runs: usize,
    mape: f64,
    median_ape: f64,
    worst_ape: f64,
    bias: f64,
}

#[derive(Serialize)]
struct BaselineView {
    #[serde(flatten)]
    overall: ErrorsView,
    groups: Vec<BaselineGroup>,
}

#[derive(Serialize)]
struct BaselineGroup {
    group: String,
    #[serde(flatten)]
    errors: ErrorsView,
}

#[derive(Serialize)]
struct RunView {
    id: String,
    group: String,
    measured_s: f64,
    predicted_s: f64,
    low_s: f64,
    high_s: f64,
    others: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct UnansweredView {
    id: String,
    why: String,
}

impl From<Errors> for ErrorsView {
    fn from(e: Errors) -> Self {
        Self {
            runs: e.runs,
            mape: e.mape,
            median_ape: e.median_ape,
            worst_ape: e.worst_ape,
            bias: e.bias,
        }
    }
}

fn group(judged: &Judged) -> Option<GroupView> {
    Some(GroupView {
        group: judged.group.clone(),
        errors: judged.ours?.into(),
        coverage: judged.coverage,
    })
}

fn errors_of(judged: &Judged, way: Way) -> Option<ErrorsView> {
    let found = judged.ways.iter().find(|(w, _)| *w == way);
    found.map(|(_, errors)| (*errors).into())
}

impl ReportView {
    /// The report, with every run where asked for. It has at least one.
    pub(super) fn of(report: &Report<'_>, each: bool) -> Self {
        let groups = report.groups();
        let overall = report.overall();
        let baselines = report
            .ways()
            .into_iter()
            .filter(|way| *way != Way::Ours)
            .filter_map(|way| {
                let of_groups = groups.iter().filter_map(|judged| {
                    Some(BaselineGroup {
                        group: judged.group.clone(),
                        errors: errors_of(judged, way)?,
                    })
                });
                let view = BaselineView {
                    overall: errors_of(&overall, way)?,
                    groups: of_groups.collect(),
                };
                Some((way.as_str(), view))
            })
            .collect();
        let run = |v: &crate::evaluate::Verdict<'_>| RunView {
            id: v.run.id.clone(),
            group: v.run.group.clone(),
            measured_s: v.run.step_time_s,
            predicted_s: v.predicted,
            low_s: v.interval.0,
            high_s: v.interval.1,
            others: v.others.iter().map(|(way, t)| (way.as_str(), *t)).collect(),
        };
        Self {
            groups: groups.iter().filter_map(group).collect(),
            overall: group(&overall).unwrap_or_else(|| GroupView {
                group: "overall".into(),
                errors: ErrorsView {
                    runs: 0,
                    mape: 0.0,
                    median_ape: 0.0,
                    worst_ape: 0.0,
                    bias: 0.0,
                },
                coverage: 0.0,
            }),
            baselines,
            runs: if each {
                report.verdicts.iter().map(run).collect()
            } else {
                Vec::new()
            },
            unanswered: report
                .unanswered
                .iter()
                .map(|(id, why)| UnansweredView {
                    id: id.clone(),
                    why: why.clone(),
                })
                .collect(),
            from_priors: report.from_priors,
        }
    }
}

/// Every run as a line.
pub(super) fn csv(report: &Report<'_>) -> String {
    let ways: Vec<Way> = report.ways();
    let mut header = vec!["id", "group", "measured_s", "low_s", "high_s"];
    header.extend(ways.iter().map(|w| w.as_str()));
    let rows: Vec<Vec<String>> = report
        .verdicts
        .iter()
        .map(|v| {
            let mut row = vec![
                v.run.id.clone(),
                v.run.group.clone(),
                v.run.step_time_s.to_string(),
                v.interval.0.to_string(),
                v.interval.1.to_string(),
            ];
            row.extend(ways.iter().map(|way| {
                match way {
                    Way::Ours => v.predicted.to_string(),
                    other => v
                        .others
                        .iter()
                        .find(|(w, _)| w == other)
                        .map_or(String::new(), |(_, t)| t.to_string()),
                }
            }));
            row
        })
        .collect();
    output::csv(&header, &rows)
}
