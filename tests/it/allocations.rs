//! The hot path allocates nothing in steady state.

use stepcast::calibration::Calibration;
use stepcast::cluster::{ClusterFile, Defaults};
use stepcast::job::JobFile;
use stepcast::model::{Case, Timings, ps};
use stepcast::placement::{Placement, Selection};

#[test]
fn a_prepared_prediction_allocates_nothing() {
    let job = JobFile {
        name: "job",
        text: "workload: resnet50\nbatch_size: 32\nstrategy: {parameter_server: {servers: 2}}\n",
        resolve: &|_| Err("no files here".into()),
    }
    .read()
    .expect("a job");
    let cluster = ClusterFile {
        name: "cluster",
        text: "nodes:\n- {name: a, count: 40, accelerators: {type: t4}, nic_gbps: 10}\n- {name: b, count: 24, accelerators: {type: K80-12GB}, nic_gbps: 25}\n",
    }
    .read(&Defaults::default())
    .expect("a cluster");
    let placement = Placement::select(&job, &cluster, &Selection::default()).expect("placed");
    let case = Case::new(
        &job,
        &cluster,
        Calibration::shipped(),
        &placement,
        &mut Timings::default(),
    )
    .expect("a case");
    let mut model = ps::Model::new(&case).expect("a model");
    let first = model.step();
    let counted = allocation_counter::measure(|| assert_eq!(model.step(), first));
    assert_eq!(counted.count_total, 0);
}
