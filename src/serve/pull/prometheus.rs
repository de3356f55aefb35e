//! Step times from Prometheus (`/api/v1/query_range`). A sample's time numbers
//! it, so that samples are taken once, also over restarts.

use super::Found;
use super::config::Query;
use super::template::Fields;
use crate::causes::causes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of an answer.
const MOST_BYTES: usize = 64 << 20;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Prometheus gives no more samples of a series at a time.
const MOST_SAMPLES: u64 = 10_000;

pub(super) struct Reader {
    query: Query,
    client: Client<HttpsConnector<HttpConnector>, Full<bytes::Bytes>>,
    /// The time up to which samples were taken.
    upto: Option<u64>,
    /// The time up to which they were fetched.
    fetched: Option<u64>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: Fields,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

impl Reader {
    /// Trusts what the machine trusts.
    pub(super) fn new(query: Query) -> std::io::Result<Self> {
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            query,
            client: Client::builder(TokioExecutor::new()).build(connector),
            upto: None,
            fetched: None,
        })
    }

    /// What was fetched last was taken.
    pub(super) fn taken(&mut self) {
        self.upto = self.fetched.or(self.upto);
    }

    /// What came since the last time.
    pub(super) async fn read(&mut self) -> Result<Vec<Found>, String> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let step = self.query.step;
        // Samples lie on multiples of the step, so that two queries see the
        // same ones.
        let end = now / step * step;
        let oldest = end.saturating_sub((MOST_SAMPLES * step).min(self.query.back.max(step)));
        let start = self.upto.map_or(oldest, |upto| (upto + step).max(oldest));
        if start > end {
            return Ok(Vec::new());
        }
        let asked = tokio::time::timeout(PATIENCE, self.ask(start, end));
        let answer = asked.await.map_err(|_| "no answer in time".to_owned())??;
        let found = answer
            .into_iter()
            .map(|series| Found {
                fields: series.metric,
                steps: series
                    .values
                    .iter()
                    .filter_map(|(at, value)| {
                        let seconds = value.parse::<f64>().ok()? * self.query.scale;
                        let fine = seconds.is_finite() && seconds > 0.0;
                        fine.then_some((*at as u64, seconds))
                    })
                    .collect(),
            })
            .filter(|found| !found.steps.is_empty())
            .collect();
        self.fetched = Some(end);
        Ok(found)
    }

    async fn ask(&self, start: u64, end: u64) -> Result<Vec<Series>, String> {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", &self.query.expression)
            .append_pair("start", &start.to_string())
            .append_pair("end", &end.to_string())
            .append_pair("step", &self.query.step.to_string())
            .finish();
        let mut request = http::Request::post(format!("{}/api/v1/query_range", self.query.url))
            .header("content-type", "application/x-www-form-urlencoded");
        if let Some(path) = &self.query.token_file {
            let token = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
            request = request.header("authorization", format!("Bearer {}", token.trim()));
        }
        let request = request
            .body(Full::from(form))
            .map_err(|error| error.to_string())?;
        let answer = self
            .client
            .request(request)
            .await
            .map_err(|error| causes(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_BYTES)
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        let read: Result<Answer, _> = serde_json::from_slice(&body);
        match read {
            Ok(Answer {
                data: Some(data), ..
            }) if status.is_success() => Ok(data.result),
            Ok(Answer {
                error: Some(error), ..
            }) => Err(format!("{status}: {error}")),
            _ => Err(format!("{status}: not an answer of Prometheus")),
        }
    }
}
