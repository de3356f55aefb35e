//! `stepcast.v1.Calibration`.

use super::super::recalibrate::{changed, recalibrate};
use super::super::status::{bad_fields, with_reason};
use super::Handlers;
use crate::calibration::Calibration as Learnt;
use crate::protocol::v1::calibration_server::Calibration;
use crate::protocol::v1::{
    GetRequest, GetResponse, ImportRequest, ImportResponse, RecalibrateRequest,
    RecalibrateResponse, RollbackRequest, RollbackResponse,
};
use tonic::{Code, Request, Response, Status};

#[tonic::async_trait]
impl Calibration for Handlers {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        self.access
            .reading(&request, "Calibration/Get", &self.state.metrics)?;
        let snapshot = self.state.snapshot();
        let file = serde_yaml::to_string(&*snapshot.calibration)
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(GetResponse {
            version: snapshot.calibration.version.clone().unwrap_or_default(),
            file,
            earlier_versions: self.state.versions(),
        }))
    }

    async fn recalibrate(
        &self,
        request: Request<RecalibrateRequest>,
    ) -> Result<Response<RecalibrateResponse>, Status> {
        self.access
            .changing(&request, "Calibration/Recalibrate", &self.state.metrics)?;
        if self.state.fitting.try_lock().is_err() {
            let why = "a fit is running; its result is told by Get";
            return Err(with_reason(Code::ResourceExhausted, "FITTING", why));
        }
        let outcome = recalibrate(&self.state, &self.reports).await;
        let version = self.state.snapshot().calibration.version.clone();
        Ok(Response::new(RecalibrateResponse {
            version: version.unwrap_or_default(),
            changed: outcome.taken.is_some(),
            reason: outcome.reason,
            fitted: outcome.fitted as u32,
            judged: outcome.judged as u32,
            before_error_ratio: outcome.before,
            after_error_ratio: outcome.after,
            undetermined: outcome.undetermined,
            set_aside: outcome.set_aside,
        }))
    }

    async fn import(
        &self,
        request: Request<ImportRequest>,
    ) -> Result<Response<ImportResponse>, Status> {
        self.access
            .changing(&request, "Calibration/Import", &self.state.metrics)?;
        let read: Result<Learnt, String> = crate::input::parse(&request.get_ref().file);
        let mut calibration = read
            .and_then(|c| c.check().map(|()| c))
            .map_err(|why| bad_fields(vec![("file".into(), why)]))?;
        if calibration.version.as_deref().is_none_or(str::is_empty) {
            calibration.version = Some(self.state.new_version("imported"));
        }
        let version = calibration.version.clone().unwrap_or_default();
        tracing::info!(version, "a calibration was imported");
        self.state.import(calibration);
        changed(&self.state, &self.reports).await;
        Ok(Response::new(ImportResponse { version }))
    }

    async fn rollback(
        &self,
        request: Request<RollbackRequest>,
    ) -> Result<Response<RollbackResponse>, Status> {
        self.access
            .changing(&request, "Calibration/Rollback", &self.state.metrics)?;
        let wanted = &request.get_ref().version;
        match self.state.rollback(wanted) {
            Some(version) => {
                tracing::info!(version, "an earlier calibration is in force again");
                changed(&self.state, &self.reports).await;
                Ok(Response::new(RollbackResponse { version }))
            }
            None => Err(with_reason(
                Code::NotFound,
                "NO_SUCH_VERSION",
                format!(
                    "no earlier calibration{}; there are: {}",
                    if wanted.is_empty() {
                        String::new()
                    } else {
                        format!(" `{wanted}`")
                    },
                    self.state.versions().join(", ")
                ),
            )),
        }
    }
}
