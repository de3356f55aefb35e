//! The parameters, their meaning, and the priors they are drawn towards.

use serde::{Deserialize, Serialize};

/// What is believed of a parameter before any measurement: its logarithm is
/// normal around `centre` with this `spread`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Most likely value.
    pub centre: f64,
    /// Standard deviation of the logarithm.
    pub spread: f64,
}

/// A struct of positive numbers that a fit can treat as a vector.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $centre:literal, $spread:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: f64,)*
        }

        impl $name {
            /// Names of the parameters, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Priors of the parameters, in order.
            pub const PRIORS: &'static [Prior] = &[$(Prior { centre: $centre, spread: $spread }),*];

            /// The values, in order.
            pub fn to_array(&self) -> Vec<f64> {
                vec![$(self.$field),*]
            }

            /// From values in order.
            pub fn from_array(values: &[f64]) -> Self {
                assert_eq!(values.len(), Self::NAMES.len(), "one value for each parameter");
                let mut values = values.iter().copied();
                Self { $($field: values.next().unwrap_or_default(),)* }
            }

            /// The centres of the priors.
            pub fn prior() -> Self {
                Self { $($field: $centre,)* }
            }
        }
    };
}

parameters!(
    /// Compute on accelerators. Shares are of the device's peaks, so another
    /// device borrows them with its own. Times are in seconds.
    AcceleratorParameters {
        /// Share of the fp32 peak that a large product reaches, forward.
        forward_fp32: 0.75, 0.3;
        /// The same in tf32.
        forward_tf32: 0.6, 0.3;
        /// The same in half precision.
        forward_half: 0.45, 0.3;
        /// Share of the fp32 peak, backward.
        backward_fp32: 0.5, 0.3;
        /// The same in tf32.
        backward_tf32: 0.6, 0.3;
        /// The same in half precision.
        backward_half: 0.5, 0.3;
        /// Arithmetic saved by Winograd kernels: fp32 3×3, stride 1, backward.
        winograd_backward: 2.25, 0.2;
        /// Output channels at which half the rate is reached.
        half_channels: 30.0, 0.5;
        /// Length of the sums at which half the rate is reached.
        half_depth: 40.0, 0.5;
        /// Input channels at which matrix units reach half their rate.
        half_input_channels: 16.0, 0.7;
        /// Passes over memory that layout changes of matrix-unit convolutions add.
        layout_passes: 1.0, 0.5;
        /// Share of memory bandwidth of streaming kernels.
        memory: 0.8, 0.08;
        /// Share of memory bandwidth of normalisation, forward.
        norm_forward: 0.8, 0.3;
        /// The same backward.
        norm_backward: 0.6, 0.3;
        /// Channels at which batch normalisation has half its bandwidth: about
        /// a block a channel, so the number of multiprocessors.
        norm_half_channels: 132.0, 0.3;
        /// Batch normalisation in half precision against fp32 (not fused).
        norm_half_precision: 0.4, 0.5;
        /// Share of memory bandwidth of pooling backward, which scatters.
        pool_backward: 0.2, 0.5;
        /// Share of the fp32 peak of depthwise convolutions, forward.
        depthwise_forward: 0.04, 0.7;
        /// The same backward.
        depthwise_backward: 0.01, 0.7;
        /// Gain of unrolled depthwise kernels (up to 5×5), backward.
        depthwise_small: 1.5, 0.4;
        /// Ramp, tail and gap of one kernel.
        kernel_s: 5e-6, 0.3;
        /// Host time to issue one operation.
        host_op_s: 50e-6, 0.3;
        /// Host time backward over forward.
        host_backward: 1.2, 0.3;
        /// Host time that autocast adds to a product.
        host_autocast_s: 25e-6, 0.5;
        /// Host time of the optimizer for a tensor.
        host_tensor_s: 4e-6, 0.5;
    }
);

parameters!(
    /// Compute on processors. Shares are of one thread's peaks, scaled by the
    /// effective number of threads. Times are in seconds.
    CpuParameters {
        /// Share of peak that a large product reaches, forward.
        product_forward: 0.95, 0.3;
        /// The same backward.
        product_backward: 0.95, 0.3;
        /// Output channels at which half the rate is reached.
        half_channels: 16.0, 0.5;
        /// Length of the sums at which half the rate is reached.
        half_depth: 16.0, 0.5;
        /// Share of streaming bandwidth.
        memory: 0.7, 0.2;
        /// Share of bandwidth of normalisation, forward.
        norm_forward: 0.2, 0.3;
        /// Share of bandwidth of writing fresh weight gradients (page faults).
        weight_gradient: 0.15, 0.3;
        /// Share of a thread that every further one loses.
        thread_loss: 0.05, 0.5;
        /// Share of bandwidth of normalisation, backward.
        norm_backward: 0.6, 0.4;
        /// Share of bandwidth of activations other than in-place `ReLU`.
        activation_forward: 0.5, 0.4;
        /// Share of bandwidth of in-place `ReLU`: over 1 where data is in cache.
        relu_forward: 1.2, 0.3;
        /// Share of bandwidth of activations, backward.
        activation_backward: 0.5, 0.5;
        /// Cycles of max pooling for an element of a window.
        max_pool_cycles: 11.0, 0.3;
        /// The same of average pooling.
        avg_pool_cycles: 6.5, 0.3;
        /// Cycles of dropout for an element, on one thread.
        dropout_cycles: 44.0, 0.3;
        /// Share of bandwidth of pooling, backward.
        pool_backward: 0.1, 0.5;
        /// Share of peak of depthwise convolutions, forward.
        depthwise_forward: 0.05, 0.5;
        /// The same backward.
        depthwise_backward: 0.05, 0.5;
        /// Passes that reordering adds to 1×1 convolutions on several threads.
        reorder_passes: 1.0, 0.7;
        /// Time of one operation.
        op_s: 15e-6, 0.7;
        /// Time that every further thread adds to it.
        thread_sync_s: 10e-6, 0.7;
        /// Share of bandwidth of the optimizer.
        optimizer: 1.0, 0.2;
        /// Time of the optimizer for a tensor.
        optimizer_tensor_s: 5e-6, 0.5;
    }
);

parameters!(
    /// Transfers between workers and parameter servers.
    TransferParameters {
        /// Share of the line rate that payload gets.
        goodput: 0.95, 0.15;
        /// Start-up of one tensor's transfer.
        startup_s: 1e-6, 1.0;
        /// Start-up of a phase: a round trip and the first request.
        latency_s: 1e-3, 0.7;
        /// Time to copy a pulled byte to where it is used.
        copy_s_per_byte: 1e-10, 0.5;
        /// Time that receiving a byte takes from the computing thread.
        receive_s_per_byte: 5e-10, 0.5;
        /// Time that sending a byte takes from the computing thread.
        send_s_per_byte: 3.5e-10, 0.5;
        /// Time of the server to sum and apply one worker's byte.
        update_s_per_byte: 4e-10, 0.5;
    }
);

parameters!(
    /// Collectives of one library over one kind of link.
    CollectiveParameters {
        /// Start-up of one collective.
        setup_s: 1e-4, 1.5;
        /// Latency of one hop between nodes.
        hop_s: 3e-5, 1.0;
        /// Latency of one hop within a node.
        peer_hop_s: 5e-6, 0.7;
        /// Share of the line rate that payload gets.
        goodput: 0.95, 0.15;
        /// Share of the rate between neighbours of a node that payload gets.
        peer_goodput: 0.6, 0.4;
        /// What one process can move at most, in bytes a second.
        process_rate: 1e10, 1.5;
        /// How much longer computation takes while a collective runs.
        compute_slowdown: 0.1, 1.0;
        /// How much longer a collective takes while computation runs.
        transfer_slowdown: 0.2, 0.5;
        /// Spread of one worker's step from one to the next: all wait for the
        /// slowest.
        straggle: 0.03, 1.0;
        /// Host time that cutting and scheduling a part costs.
        part_s: 5e-4, 0.7;
        /// Share of a process's rate that is left each way where both ways go
        /// between the same two nodes.
        duplex: 1.0, 0.1;
        /// Bytes that pass at the line rate before a limit on a process's
        /// flow takes hold, in every step.
        burst: 1e3, 0.1;
    }
);

parameters!(
    /// What is particular to one type of device, on top of its peaks.
    DeviceFactors {
        /// Times what the shares of its peaks predict.
        compute: 1.0, 0.25;
        /// Host time of a step beside its operations: input, loop, framework.
        overhead_s: 1e-4, 2.0;
        /// How much longer workers compute on a node that others fill: power,
        /// heat and host memory are shared.
        crowding: 0.03, 1.0;
    }
);

parameters!(
    /// What is particular to one workload on one device.
    WorkloadFactors {
        /// Times what its layers predict; where nothing says what they
        /// compute, milliseconds a sample.
        compute: 1.0, 0.1;
        /// Host time of a step, on top of the device's.
        overhead_s: 1e-4, 2.0;
    }
);
