//! What a pod says of the job that it belongs to.

use serde_json::Value;

/// A pod of a gang.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The gang, among all of the cluster.
    pub gang: String,
    /// The pod, among all of the cluster.
    pub pod: String,
    /// The job, as a job file.
    pub job: String,
    /// Pods of the gang, where that is said.
    pub size: Option<u32>,
    /// Speedup that the gang should reach, where that is said.
    pub target_speedup: Option<f64>,
    /// Workers of the pod: its accelerators, or one.
    pub workers: u32,
}

/// What starts our keys.
const OURS: &str = "stepcast.dev/";

/// Labels by which controllers mark the pods of one job.
const OWNERS: [&str; 6] = [
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "scheduling.x-k8s.io/pod-group",
    "batch.kubernetes.io/job-name",
    "job-name",
];

/// Resources that are whole accelerators. Nodes cut into MIG slices take no
/// work, so that slices need not be counted.
pub const ACCELERATORS: [&str; 4] = [
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/i915",
];

/// The pod's annotation, or its label, of ours.
fn ours<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    let key = format!("{OURS}{key}");
    let metadata = &pod["metadata"];
    let found = metadata["annotations"]
        .get(&key)
        .or_else(|| metadata["labels"].get(&key));
    found.and_then(Value::as_str)
}

impl Member {
    /// What a pod says; `None` where it says nothing to us.
    pub fn read(pod: &Value) -> Result<Option<Self>, String> {
        let job = match (ours(pod, "job"), ours(pod, "workload")) {
            (Some(job), _) => job.to_owned(),
            (None, Some(workload)) => assembled(pod, workload)?,
            (None, None) => return Ok(None),
        };
        let number = |key: &str| -> Result<Option<f64>, String> {
            let Some(text) = ours(pod, key) else {
                return Ok(None);
            };
            let number = text.trim().parse::<f64>().ok();
            let fine = number.filter(|n| n.is_finite() && *n > 0.0);
            let wrong = || format!("{OURS}{key}: found `{text}`, expected a number above zero");
            fine.map(Some).ok_or_else(wrong)
        };
        Ok(Some(Self {
            gang: gang(pod),
            pod: name(pod),
            job,
            size: number("workers")?.map(|n| n as u32),
            target_speedup: number("target-speedup")?,
            workers: accelerators(pod).max(1),
        }))
    }

    /// The gang of a pod that says something to us.
    pub fn gang_of(pod: &Value) -> Option<String> {
        let ours = ours(pod, "job").or_else(|| ours(pod, "workload"));
        ours.map(|_| gang(pod))
    }
}

/// A job file from single annotations.
fn assembled(pod: &Value, workload: &str) -> Result<String, String> {
    let batch = ours(pod, "batch-size")
        .ok_or_else(|| format!("{OURS}batch-size: missing beside {OURS}workload"))?;
    let precision = ours(pod, "precision").map_or(String::new(), |p| format!("precision: {p}\n"));
    let strategy = match ours(pod, "strategy") {
        // What DDP does, where nothing else is said.
        None => {
            "{all_reduce: {algorithm: ring, overlap: true, fusion: {buffer_mib: 25}}}".to_owned()
        }
        Some("single") => "single".to_owned(),
        Some(name) if !name.contains(['{', ':']) => format!("{{{name}: {{}}}}"),
        Some(text) => text.to_owned(),
    };
    Ok(format!(
        "workload: {workload}\nbatch_size: {batch}\n{precision}strategy: {strategy}\n"
    ))
}

/// The pod's name among all.
fn name(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// The gang's name among all: what the pod says, what its controller marked
/// it with, who owns it, or the pod alone.
fn gang(pod: &Value) -> String {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    if let Some(gang) = ours(pod, "gang") {
        return format!("{namespace}/gang/{gang}");
    }
    let labels = &pod["metadata"]["labels"];
    for label in OWNERS {
        if let Some(owner) = labels.get(label).and_then(Value::as_str) {
            return format!("{namespace}/{label}/{owner}");
        }
    }
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let owner = owners.and_then(|o| o.iter().find(|o| o["controller"] == true).or(o.first()));
    match owner.and_then(|o| o["uid"].as_str().or(o["name"].as_str())) {
        Some(owner) => format!("{namespace}/owner/{owner}"),
        None => name(pod),
    }
}

/// Accelerators that its containers ask for.
fn accelerators(pod: &Value) -> u32 {
    let amount = |resources: &Value| -> u64 {
        let of = |name: &&str| {
            let value = resources.get(*name)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        };
        ACCELERATORS.iter().filter_map(of).sum()
    };
    let containers = pod["spec"]["containers"].as_array();
    let all = containers.into_iter().flatten().map(|c| {
        let resources = &c["resources"];
        amount(&resources["limits"]).max(amount(&resources["requests"]))
    });
    all.sum::<u64>().min(1024) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_without_our_keys_are_none_of_ours() {
        let pod = json!({"metadata": {"name": "a", "labels": {"job-name": "x"}}});
        assert_eq!(Member::read(&pod), Ok(None));
        assert_eq!(Member::gang_of(&pod), None);
    }

    #[test]
    fn a_job_is_put_together_from_annotations() {
        let pod = json!({
            "metadata": {
                "name": "train-0", "namespace": "ml",
                "labels": {"training.kubeflow.org/job-name": "train"},
                "annotations": {
                    "stepcast.dev/workload": "resnet50", "stepcast.dev/batch-size": "64",
                    "stepcast.dev/strategy": "all_reduce", "stepcast.dev/workers": "8",
                    "stepcast.dev/target-speedup": "6"
                }
            },
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}, {}]}
        });
        let member = Member::read(&pod).expect("fine").expect("ours");
        assert_eq!(member.gang, "ml/training.kubeflow.org/job-name/train");
        assert_eq!((member.size, member.workers), (Some(8), 2));
        assert_eq!(member.target_speedup, Some(6.0));
        let file = crate::job::JobFile {
            name: "pod",
            text: &member.job,
            resolve: &|_| Err("none".into()),
        };
        assert!(file.read().is_ok(), "{}", member.job);
    }

    #[test]
    fn bad_annotations_are_named() {
        let pod = json!({"metadata": {"annotations": {"stepcast.dev/workload": "resnet50"}}});
        let error = Member::read(&pod).expect_err("no batch size");
        assert!(error.contains("batch-size"), "{error}");
        let pod = json!({"metadata": {"annotations": {"stepcast.dev/job": "x", "stepcast.dev/workers": "-3"}}});
        assert!(
            Member::read(&pod)
                .expect_err("negative")
                .contains("workers")
        );
    }
}
