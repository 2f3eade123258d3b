//! Charts as SVG, from the charting library. Chooses how figures are drawn, and draws nothing itself.

use anyhow::{Context, Result};
use charts_rs::{BarChart, Color, HorizontalBarChart, LineChart};
use serde_json::{Value, json};

use super::figures::{Chart, Form, Measured, Unit, Variant};
use super::stats::float;

/// A chart for light surroundings and one for dark ones.
pub struct Pair {
    /// Dark on light.
    pub light: String,
    /// Light on dark.
    pub dark: String,
}

const WIDTH: usize = 860;
/// Colours that differ in lightness as well, and stand out on white as on black: the worker, the worker in another way,
/// the comparison, another one.
const COLOURS: [&str; 4] = ["#2f7ed8", "#e08a1e", "#5aa469", "#b0507a"];
/// More bars than this are told by the table alone.
const MAX_BARS: usize = 8;

/// What a scenario measured, as bars: rows per second where rows go, else the medians. `None` when it measured nothing
/// or too much for bars.
///
/// # Errors
///
/// When the library refuses.
pub fn bars(measured: &Measured) -> Result<Option<Pair>> {
    let variants: Vec<&Variant> =
        measured.variants.iter().filter(|variant| variant.summary.is_some()).collect();
    let unit = variants.first().map(|variant| (variant.unit, variant.rows > 0));
    if variants.len() > MAX_BARS {
        return Ok(None);
    }
    let (title, value): (&str, fn(&Variant) -> f64) = match unit {
        None => return Ok(None),
        Some((Unit::Seconds, true)) => {
            ("Rows per second, median", |variant| float(variant.rows) / variant.median())
        }
        Some((Unit::Seconds, false)) => ("Milliseconds, median", |variant| variant.median() * 1e3),
        Some((Unit::Milliseconds, _)) => ("Milliseconds, median", Variant::median),
        Some((Unit::Mebibytes, _)) => ("MiB", Variant::median),
        Some((Unit::Ratio, _)) => ("Ratio, median", Variant::median),
    };
    // The first category is drawn at the bottom. Room after a name, as a reader's font may be wider than the one the
    // library measures in.
    let (names, values): (Vec<String>, Vec<f64>) =
        variants.iter().rev().map(|variant| (padded(&variant.label), rounded(value(variant)))).unzip();
    let colours: Vec<&str> =
        variants.iter().rev().map(|variant| COLOURS[if variant.comparison { 2 } else { 0 }]).collect();
    let thousands = values.iter().any(|value| *value >= 10_000.0);
    let document = json!({
        "title_text": title,
        "height": 90 + 36 * values.len(),
        "legend_show": false,
        "margin": { "left": 5, "top": 5, "right": 70, "bottom": 5 },
        "series_label_formatter": if thousands { "{t}" } else { "{c}" },
        "x_axis_data": names,
        // The values stand at the bars.
        "x_axis_hidden": true,
        "series_list": [{ "name": title, "label_show": true, "data": values, "colors": colours }],
    });
    Some(pair(&document, Kind::HorizontalBars)).transpose()
}

/// The throughput of several scenarios beside each other; `None` without any.
///
/// # Errors
///
/// When the library refuses.
pub fn overview(scenarios: &[&Measured]) -> Result<Option<Pair>> {
    let mut labels: Vec<&str> = Vec::new();
    for variant in scenarios.iter().flat_map(|measured| &measured.variants) {
        if !labels.contains(&variant.label.as_str()) {
            labels.push(&variant.label);
        }
    }
    if labels.is_empty() {
        return Ok(None);
    }
    let series: Vec<Value> = labels
        .iter()
        .map(|label| {
            let rate = |measured: &&Measured| {
                let variant = measured.variants.iter().find(|variant| variant.label == *label)?;
                Some(rounded(float(variant.rows) / variant.median()))
            };
            json!({ "name": label, "data": scenarios.iter().map(rate).collect::<Vec<_>>() })
        })
        .collect();
    let names: Vec<&str> = scenarios.iter().map(|measured| measured.name.as_str()).collect();
    let document = json!({
        "title_text": "Rows per second, median",
        "height": 340,
        "y_axis_configs": [{ "axis_formatter": "{t}", "axis_font_size": 12, "axis_min": 0 }],
        "x_axis_data": names,
        "series_list": series,
    });
    Some(pair(&document, Kind::Bars)).transpose()
}

/// A chart of curves.
///
/// # Errors
///
/// When the library refuses.
pub fn chart(chart: &Chart) -> Result<Pair> {
    let series: Vec<Value> = chart
        .curves
        .iter()
        .map(|curve| {
            let (xs, ys): (Vec<f64>, Vec<f64>) = curve.points.iter().map(|&(x, y)| (x, rounded(y))).unzip();
            match chart.form {
                Form::Lines => json!({ "name": curve.label, "data": ys, "x_values": xs, "symbol": null }),
                Form::Steps(_) | Form::Bars(_) => {
                    json!({ "name": curve.label, "data": ys, "label_show": true })
                }
            }
        })
        .collect();
    let mut document = json!({
        "title_text": chart.title,
        "height": 340,
        "x_axis_title": chart.x,
        "y_axis_configs": [{ "axis_title": chart.y, "axis_font_size": 12, "axis_min": 0 }],
        "series_label_hide_overlap": true,
        "series_list": series,
    });
    let kind = match &chart.form {
        Form::Lines => {
            let xs = chart.curves.iter().flat_map(|curve| curve.points.iter().map(|(x, _)| *x));
            let last = xs.fold(0.0, f64::max);
            let first = chart.curves.first().map(|c| c.points.iter().map(|(x, _)| *x).collect::<Vec<_>>());
            document["x_axis_values"] = json!(first.unwrap_or_default());
            document["x_axis_min"] = json!(0);
            document["x_axis_max"] = json!(last);
            document["series_stroke_width"] = json!(1.5);
            Kind::Lines
        }
        Form::Steps(names) => {
            document["x_axis_data"] = json!(names);
            Kind::Lines
        }
        Form::Bars(names) => {
            document["x_axis_data"] = json!(names);
            Kind::Bars
        }
    };
    pair(&document, kind)
}

#[derive(Clone, Copy)]
enum Kind {
    Lines,
    Bars,
    HorizontalBars,
}

fn pair(document: &Value, kind: Kind) -> Result<Pair> {
    Ok(Pair { light: svg(document, kind, "light")?, dark: svg(document, kind, "dark")? })
}

fn svg(document: &Value, kind: Kind, theme: &str) -> Result<String> {
    let mut document = document.clone();
    for (key, value) in [
        ("theme", json!(theme)),
        ("width", json!(WIDTH)),
        ("title_font_size", json!(15)),
        ("title_align", json!("left")),
        ("x_axis_font_size", json!(12)),
        ("legend_font_size", json!(12)),
        ("legend_align", json!("right")),
        ("legend_category", json!("rect")),
        ("series_label_font_size", json!(12)),
        ("series_colors", json!(COLOURS)),
        ("tooltip_show", json!(false)),
        ("font_family", json!("Roboto")),
    ] {
        if document[key].is_null() {
            document[key] = value;
        }
    }
    let text = document.to_string();
    let svg = match kind {
        Kind::Lines => LineChart::from_json(&text).and_then(|mut chart| {
            chart.background_color = Color::transparent();
            chart.svg()
        }),
        Kind::Bars => BarChart::from_json(&text).and_then(|mut chart| {
            chart.background_color = Color::transparent();
            chart.svg()
        }),
        Kind::HorizontalBars => HorizontalBarChart::from_json(&text).and_then(|mut chart| {
            chart.background_color = Color::transparent();
            chart.svg()
        }),
    };
    svg.with_context(|| format!("drawing {}", document["title_text"]))
}

/// A name with room after it, in spaces that do not break.
fn padded(name: &str) -> String {
    format!("{name}{}", "\u{a0}".repeat(2 + name.chars().count() / 4))
}

/// Three digits after the point for small values, none for large ones: a label has no room for more.
fn rounded(value: f64) -> f64 {
    let factor = match value.abs() {
        100.0.. => 1.0,
        1.0.. => 100.0,
        _ => 1000.0,
    };
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::super::figures::Curve;
    use super::*;

    fn curves(form: Form) -> Chart {
        let curve = |label: &str| Curve { label: label.to_owned(), points: vec![(1.0, 2.5), (2.0, 4.0)] };
        let curves = vec![curve("one"), curve("other")];
        Chart { title: "A title".to_owned(), form, x: "x".to_owned(), y: "ms".to_owned(), curves }
    }

    #[test]
    fn every_form_is_drawn_for_light_and_dark() -> Result<()> {
        let names = || vec!["a".to_owned(), "b".to_owned()];
        for form in [Form::Lines, Form::Steps(names()), Form::Bars(names())] {
            let Pair { light, dark } = chart(&curves(form))?;
            assert!(light.starts_with("<svg") && light.contains("A title") && light.contains("other"));
            assert!(dark.starts_with("<svg") && dark != light);
        }
        Ok(())
    }

    #[test]
    fn bars_show_rates_and_nothing_has_none() -> Result<()> {
        let mut measured = Measured::new("sicr", "");
        assert!(bars(&measured)?.is_none());
        let mut variant = Variant::timed("worker", 1000);
        variant.push(2.0);
        measured.variants.push(variant);
        let drawn = bars(&measured)?.context("no chart")?;
        assert!(drawn.light.contains("worker") && drawn.light.contains("500"), "{}", drawn.light);
        assert!(overview(&[&measured])?.is_some());
        assert!(overview(&[])?.is_none());
        Ok(())
    }

    #[test]
    fn labels_have_few_digits() {
        let labels = [1234.5, 12.346, 0.123_45].map(|value| rounded(value).to_string());
        assert_eq!(labels, ["1235", "12.35", "0.123"]);
    }
}
