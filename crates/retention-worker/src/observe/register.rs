//! Makes a metric as its entry in the table says, on a registry. Gives no values.

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use super::metric_table::{Kind, Metric};

/// A counter without labels.
pub(super) fn counter(registry: &Registry, metric: &Metric) -> IntCounter {
    register(registry, metric, IntCounter::with_opts(options(metric)))
}

/// Counters with the metric's labels.
pub(super) fn counters(registry: &Registry, metric: &Metric) -> IntCounterVec {
    register(registry, metric, IntCounterVec::new(options(metric), metric.labels))
}

/// A gauge without labels.
pub(super) fn gauge(registry: &Registry, metric: &Metric) -> Gauge {
    register(registry, metric, Gauge::with_opts(options(metric)))
}

/// Gauges with the metric's labels.
pub(super) fn gauges(registry: &Registry, metric: &Metric) -> GaugeVec {
    register(registry, metric, GaugeVec::new(options(metric), metric.labels))
}

/// A histogram without labels.
pub(super) fn histogram(registry: &Registry, metric: &Metric) -> Histogram {
    register(registry, metric, Histogram::with_opts(histogram_options(metric)))
}

/// Histograms with the metric's labels.
pub(super) fn histograms(registry: &Registry, metric: &Metric) -> HistogramVec {
    register(registry, metric, HistogramVec::new(histogram_options(metric), metric.labels))
}

fn options(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

fn histogram_options(metric: &Metric) -> HistogramOpts {
    let options = HistogramOpts::from(options(metric));
    match metric.kind {
        Kind::Histogram(buckets) => options.buckets(buckets.to_vec()),
        Kind::Counter | Kind::Gauge => options,
    }
}

#[expect(
    clippy::expect_used,
    reason = "the table is constant: a wrong entry fails in every test that makes Metrics"
)]
fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: &Metric,
    made: prometheus::Result<C>,
) -> C {
    let collector = made.expect(metric.name);
    registry.register(Box::new(collector.clone())).expect(metric.name);
    collector
}
