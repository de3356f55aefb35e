//! What every call goes through, from outside in: counted and timed, named,
//! held to a deadline, shed under overload, and kept from taking the server
//! down with it.

pub(crate) mod calls;
pub(crate) mod deadline;
pub(crate) mod ending;
pub(crate) mod panics;
pub(crate) mod request_id;
pub(crate) mod shed;
