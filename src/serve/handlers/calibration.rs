//! `stepcast.v1.Calibration`.

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
        Err(with_reason(
            Code::Unimplemented,
            "NOT_YET",
            "this version does not fit on observations; Import takes a calibration made elsewhere",
        ))
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
            calibration.version = Some(self.state.new_version());
        }
        let version = calibration.version.clone().unwrap_or_default();
        tracing::info!(version, "a calibration was imported");
        self.state.import(calibration);
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
