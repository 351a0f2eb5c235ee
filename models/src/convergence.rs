//! How many samples a training needs until it reaches a target, by its global batch: one TOML file for each target.
//!
//! Where the points follow it, the law of McCandlish et al. (arXiv:1812.06162, section 2.3),
//! E(B) = E_min · (1 + B / B_crit), is fitted through them; where they do not, the points are joined.

use crate::catalog::{embedded, find};
use crate::families::Model;
use crate::families::ModelSpec;
use rust_embed::RustEmbed;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use trainyard_units::{CatalogError, Invalid};

#[derive(RustEmbed)]
#[folder = "convergence"]
struct Files;

/// Samples to a target by global batch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvergenceCurve {
    /// Id of the target, `mlperf-resnet`.
    pub target: String,
    /// What is reached, on which data.
    pub description: String,
    /// Catalog ids of the models it was measured with.
    pub models: Vec<String>,
    /// What an epoch is, for curves that count epochs; the others count samples.
    #[serde(default)]
    pub epoch: Option<Epoch>,
    /// How seeds differ.
    pub seeds: Seeds,
    /// Where the points were published.
    pub source: String,
    /// The law through the points; nothing where they do not follow it.
    #[serde(default)]
    pub fit: Option<Fit>,
    /// What was measured, by ascending batch.
    #[serde(rename = "point")]
    pub points: Vec<ConvergencePoint>,
}

/// A pass over the data set of a target.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Samples of the data set.
    pub samples: u64,
    /// Which data set.
    pub source: String,
}

/// How trainings that differ in their seeds only differ.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// Standard deviation over the mean.
    pub deviation: f64,
    /// On what it was fitted.
    pub source: String,
}

/// E(B) = minimum · (1 + B / critical_batch).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// What a very small batch needs, in the curve's unit.
    pub minimum: f64,
    /// Samples at which a batch needs twice as much.
    pub critical_batch: f64,
    /// Root mean square of the relative error at the points.
    pub error: f64,
    /// On what it was fitted.
    pub source: String,
}

/// Trainings at one global batch, in the curve's unit.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvergencePoint {
    /// Samples of an optimizer step.
    pub batch: u64,
    /// Mean over the runs.
    pub mean: f64,
    /// The run that needed least.
    pub least: f64,
    /// The run that needed most.
    pub most: f64,
    /// Runs with different seeds.
    pub runs: u32,
}

/// Returns all curves, in the order of their targets.
///
/// # Panics
///
/// When a file does not parse: the build is broken, and a test says so first.
pub(crate) fn convergence_curves() -> &'static [ConvergenceCurve] {
    static CURVES: OnceLock<Vec<ConvergenceCurve>> = OnceLock::new();
    CURVES.get_or_init(|| embedded::<Files, ConvergenceCurve>().collect())
}

/// Returns the curve of a model to a target. A model is what its architecture makes it, whatever its name: one that
/// differs from the measured one in the kernel of attention or the size of its samples alone has its curve; see
/// [`ConvergenceCurve::resized`].
///
/// # Errors
///
/// Fails in the field `target` if there is no such target, or none of this model.
pub fn convergence_curve(target: &str, model: &Model) -> Result<&'static ConvergenceCurve, Invalid> {
    let curves = convergence_curves();
    let Some(curve) = curves.iter().find(|curve| curve.target == target) else {
        let known: Vec<&str> = curves.iter().map(|curve| curve.target.as_str()).collect();
        let advice = format!("targets are {}; or write steps or epochs instead of one", known.join(", "));
        return Err(CatalogError::new("target", target, known).with_advice(advice).at("target"));
    };
    if curve.measured_model(model).is_some() {
        return Ok(curve);
    }
    let of_curve =
        |curve: &'static ConvergenceCurve| curve.models.iter().map(|model| format!("{model} ({})", curve.target));
    let known: Vec<String> = curves.iter().flat_map(of_curve).collect();
    let sentence = format!("how many samples `{}` needs to `{target}` is not known", model.name());
    let hint = format!("use steps or epochs; models with a target are {}", known.join(", "));
    Err(Invalid::inside("target", sentence).with_hint(hint))
}

/// What may differ between a model and the measured one of its curve: neither its parameters nor its operators.
fn shape(model: &Model) -> ModelSpec {
    let spec = model.spec();
    ModelSpec { name: String::new(), attention: None, seq_len: None, image_size: None, ..spec }
}

impl ConvergenceCurve {
    /// Returns the model of the catalog that the curve was measured with, if this is it.
    fn measured_model(&self, model: &Model) -> Option<&'static Model> {
        let known = self.models.iter().map(|id| &find(id).expect("curves are of models of the catalog").model);
        known.into_iter().find(|known| shape(known) == shape(model))
    }

    /// Size of the samples that the curve was measured with, then that of this model's, where they differ: height and
    /// width of an image, or tokens.
    pub fn resized(&self, model: &Model) -> Option<[u64; 2]> {
        let size = |model: &Model| {
            let spec = model.spec();
            spec.image_size.or(spec.seq_len)
        };
        let sizes = [size(self.measured_model(model)?)?, size(model)?];
        (sizes[0] != sizes[1]).then_some(sizes)
    }

    /// Mean samples to the target at a global batch of this many samples.
    pub fn samples(&self, global_batch: u64) -> f64 {
        let batch = global_batch as f64;
        let amount = match &self.fit {
            Some(fit) => fit.minimum * (1.0 + batch / fit.critical_batch),
            None => self.joined(batch),
        };
        amount * self.epoch.as_ref().map_or(1.0, |epoch| epoch.samples as f64)
    }

    /// Straight lines between the points over the logarithm of the batch. A batch below all of them needs as much as
    /// the smallest; one above all of them as many steps as the largest.
    fn joined(&self, batch: f64) -> f64 {
        let after = self.points.iter().position(|point| point.batch as f64 > batch);
        match after {
            Some(0) => self.points[0].mean,
            None => {
                let last = self.points.last().expect("a curve has points");
                last.mean * batch / last.batch as f64
            }
            Some(after) => {
                let (low, high) = (&self.points[after - 1], &self.points[after]);
                let share = (batch / low.batch as f64).ln() / (high.batch as f64 / low.batch as f64).ln();
                low.mean + share * (high.mean - low.mean)
            }
        }
    }

    /// Global batches between which the curve was measured.
    pub fn measured(&self) -> RangeInclusive<u64> {
        let batch = |point: Option<&ConvergencePoint>| point.expect("a curve has points").batch;
        batch(self.points.first())..=batch(self.points.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str) -> &'static Model {
        &find(id).expect("in the catalog").model
    }

    #[test]
    fn a_model_is_known_by_its_architecture_and_not_by_its_name() {
        let changed = |id: &str, change: fn(&mut ModelSpec)| {
            let mut spec = model(id).spec();
            change(&mut spec);
            Model::try_from(spec).expect("a model")
        };
        let curve = |model: &Model| convergence_curve("mlperf-resnet", model);
        let renamed = changed("gpt2", |spec| spec.name = "resnet50".into());
        assert!(curve(&renamed).is_err());
        let deeper = changed("resnet50", |spec| spec.depths = Some(vec![3, 4, 23, 3]));
        assert!(curve(&deeper).is_err());
        let same = changed("resnet50", |spec| spec.name = "mine".into());
        assert_eq!(curve(&same).expect("the same network").resized(&same), None);
        let small = changed("resnet50", |spec| spec.image_size = Some(128));
        assert_eq!(curve(&small).expect("the same network").resized(&small), Some([224, 128]));
    }

    #[test]
    fn every_curve_is_sourced_ascending_and_of_models_of_the_catalog() {
        for curve in convergence_curves() {
            let at = &curve.target;
            assert!(Files::get(&format!("{at}.toml")).is_some(), "{at} stands in a file of another name");
            assert!(!curve.source.is_empty() && !curve.seeds.source.is_empty() && !curve.description.is_empty());
            assert!(curve.points.is_sorted_by(|a, b| a.batch < b.batch) && curve.points.len() > 2, "{at}");
            assert!(curve.points.iter().all(|p| p.least <= p.mean && p.mean <= p.most && p.runs > 1), "{at}");
            assert!(curve.epoch.as_ref().is_none_or(|epoch| epoch.samples > 0 && !epoch.source.is_empty()), "{at}");
            for model in &curve.models {
                assert!(crate::find(model).is_ok(), "{at}: {model}");
            }
        }
    }

    #[test]
    fn fits_pass_their_points_within_the_stated_error() {
        for curve in convergence_curves() {
            let epoch = curve.epoch.as_ref().map_or(1.0, |epoch| epoch.samples as f64);
            let error = |point: &ConvergencePoint| (curve.samples(point.batch) / (point.mean * epoch) - 1.0).powi(2);
            let rms = (curve.points.iter().map(error).sum::<f64>() / curve.points.len() as f64).sqrt();
            let stated = curve.fit.as_ref().map_or(0.0, |fit| fit.error);
            assert!((rms - stated).abs() < 2e-4, "{}: {rms} instead of {stated}", curve.target);
        }
    }

    #[test]
    fn the_critical_batch_needs_twice_the_least_work() {
        let curve = convergence_curve("mlperf-resnet", model("resnet50")).expect("measured");
        let fit = curve.fit.as_ref().expect("fitted");
        let twice = curve.samples(fit.critical_batch as u64) / (fit.minimum * 1_281_167.0);
        assert!((twice - 2.0).abs() < 1e-4, "{twice}");
    }

    #[test]
    fn points_without_a_law_are_joined_and_held() {
        let curve = convergence_curves().iter().find(|curve| curve.target == "mlperf-cosmoflow").expect("there");
        let epochs = |batch| curve.samples(batch) / 524_288.0;
        assert!(epochs(768) > epochs(512) && epochs(768) < epochs(1024));
        assert!((epochs(16) - epochs(32)).abs() < 1e-12);
        // As many steps as at the largest batch that was measured.
        assert!((epochs(4096) / 4.0 - epochs(1024)).abs() < 1e-9);
    }

    #[test]
    fn a_model_without_a_curve_is_told_which_have_one() {
        let error = convergence_curve("mlperf-resnet", model("gpt2")).expect_err("no curve");
        assert!(
            error.to_string().ends_with("how many samples `gpt2` needs to `mlperf-resnet` is not known"),
            "{error}"
        );
        let hint = error.hint().expect("it has one");
        assert!(hint.contains("resnet50 (mlperf-resnet)") && hint.contains("steps or epochs"));
        let error = convergence_curve("resnet", model("resnet50")).expect_err("no target");
        assert_eq!(error.to_string(), "in `target`: no target is called `resnet`");
        assert_eq!(error.hint().as_deref(), Some("did you mean `mlperf-resnet`?"));
        let error = convergence_curve("x", model("resnet50")).expect_err("no target");
        assert!(error.hint().is_some_and(|hint| hint.contains("mlperf-resnet") && hint.contains("steps or epochs")));
    }
}
