//! Charts of results, as SVG and PNG: lines through points with their spread, and marks at moments of which one must know.

use crate::spread::Spread;
use plotters::coord::Shift;
use plotters::prelude::{
    BLACK, BitMapBackend, ChartBuilder, Circle, Color, DrawingArea, DrawingAreaErrorKind, DrawingBackend,
    ErrorBar, FontStyle, IntoDrawingArea, LineSeries, PathElement, RGBColor, SVGBackend, SeriesLabelPosition,
    ShapeStyle, WHITE,
};
use plotters::style::register_font;
use std::path::{Path, PathBuf};

/// Width and height, in pixels.
const SIZE: (u32, u32) = (840, 500);

/// Colours that people with any eyes can distinguish (Okabe and Ito), and one more.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(140, 140, 140),
];

/// Content of a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// Above it.
    pub(crate) title: String,
    /// Below it, with the unit.
    pub(crate) across: String,
    /// Name of the vertical axis, with the unit.
    pub(crate) upwards: String,
    /// Its lines.
    pub(crate) lines: Vec<Line>,
    /// Moments, with what happened then.
    pub(crate) marks: Vec<(f64, String)>,
}

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// Its name in the legend.
    pub(crate) name: String,
    /// Its points, from left to right.
    pub(crate) points: Vec<(f64, Spread)>,
}

/// Draws charts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pen(());

/// Reason why a chart cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlotError {
    /// There is nothing to write with.
    #[error("no font for plots found (below {}); on Debian: apt-get install fonts-dejavu-core", FONTS.join(", "))]
    NoFont,
    /// A file cannot be written or the chart has no points.
    #[error("cannot draw {0}: {1}")]
    Drawing(PathBuf, String),
}

/// Folders of fonts.
const FONTS: [&str; 3] = ["/usr/share/fonts", "/usr/local/share/fonts", "/System/Library/Fonts/Supplemental"];

/// Fonts that are taken first.
const PREFERRED: [&str; 4] =
    ["DejaVuSans.ttf", "LiberationSans-Regular.ttf", "NotoSans-Regular.ttf", "Arial.ttf"];

impl Pen {
    /// Finds a font.
    ///
    /// # Errors
    /// [`PlotError::NoFont`].
    pub(crate) fn find() -> Result<Pen, PlotError> {
        let mut fonts = Vec::new();
        FONTS.iter().for_each(|folder| collect(Path::new(folder), &mut fonts));
        fonts.sort_by_key(|font| (rank(font), font.clone()));
        for font in fonts {
            let Ok(bytes) = std::fs::read(&font) else { continue };
            // The library keeps it for as long as the process lives; it is asked for once.
            if register_font("sans-serif", FontStyle::Normal, bytes.leak()).is_ok() {
                return Ok(Pen(()));
            }
        }
        Err(PlotError::NoFont)
    }

    /// Writes the chart to `path` with the endings `svg` and `png`; both names.
    ///
    /// # Errors
    /// [`PlotError::Drawing`].
    pub(crate) fn draw(self, chart: &Chart, path: &Path) -> Result<[PathBuf; 2], PlotError> {
        let files = ["svg", "png"].map(|ending| PathBuf::from(format!("{}.{ending}", path.display())));
        let failed = |file: &Path, problem: String| PlotError::Drawing(file.to_owned(), problem);
        let [vector, pixels] = &files;
        draw(SVGBackend::new(vector, SIZE).into_drawing_area(), chart)
            .map_err(|error| failed(vector, error.to_string()))?;
        draw(BitMapBackend::new(pixels, SIZE).into_drawing_area(), chart)
            .map_err(|error| failed(pixels, error.to_string()))?;
        Ok(files)
    }
}

/// Every TrueType font below a folder.
fn collect(folder: &Path, fonts: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, fonts);
        } else if path.extension().is_some_and(|ending| ending == "ttf") {
            fonts.push(path);
        }
    }
}

fn rank(font: &Path) -> usize {
    let preferred = PREFERRED.iter().position(|name| font.file_name().is_some_and(|font| font == *name));
    preferred.unwrap_or(PREFERRED.len())
}

/// From the least to the greatest place of all points and marks, with a bit of room.
fn reach(chart: &Chart) -> (f64, f64) {
    let points = chart.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let all = points.chain(chart.marks.iter().map(|mark| mark.0));
    let (least, most) =
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), at| (least.min(at), most.max(at)));
    if least > most {
        return (0.0, 1.0);
    }
    let room = ((most - least) * 0.04).max(0.2);
    (least - room, most + room)
}

/// The top of the scale.
fn height(chart: &Chart) -> f64 {
    let points = chart.lines.iter().flat_map(|line| &line.points);
    let most = points.map(|(_, spread)| spread.most).fold(0.0, f64::max);
    if most > 0.0 { most * 1.12 } else { 1.0 }
}

fn draw<Backend: DrawingBackend>(
    area: DrawingArea<Backend, Shift>,
    chart: &Chart,
) -> Result<(), DrawingAreaErrorKind<Backend::ErrorType>> {
    area.fill(&WHITE)?;
    let (left, right) = reach(chart);
    let top = height(chart);
    let mut place = ChartBuilder::on(&area)
        .caption(&chart.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(left..right, 0.0..top)?;
    place
        .configure_mesh()
        .x_desc(&chart.across)
        .y_desc(&chart.upwards)
        .axis_desc_style(("sans-serif", 15))
        .label_style(("sans-serif", 14))
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    for (at, what) in &chart.marks {
        let style = ShapeStyle::from(&BLACK.mix(0.5)).stroke_width(1);
        place
            .draw_series([PathElement::new(vec![(*at, 0.0), (*at, top)], style)])?
            .label(what)
            .legend(move |(x, y)| PathElement::new(vec![(x + 8, y - 6), (x + 8, y + 6)], style));
    }
    for (number, line) in chart.lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let style = ShapeStyle::from(&colour).stroke_width(2);
        let middle = line.points.iter().map(|(at, spread)| (*at, spread.median));
        place
            .draw_series(LineSeries::new(middle.clone(), style))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
        if line.points.len() <= MOST_DOTS {
            place.draw_series(middle.map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        let apart = line.points.iter().filter(|(_, spread)| spread.most > spread.least);
        place.draw_series(apart.map(|(at, spread)| {
            ErrorBar::new_vertical(*at, spread.least, spread.median, spread.most, style, 6)
        }))?;
    }
    place
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 14))
        .draw()?;
    area.present()
}

/// A line with more points than this has no dots.
const MOST_DOTS: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let spread = |median: f64| Spread { median, least: median - 1.0, most: median + 2.0 };
        Chart {
            title: "Throughput".to_owned(),
            across: "servers".to_owned(),
            upwards: "transactions a second".to_owned(),
            lines: vec![
                Line { name: "browsing".to_owned(), points: vec![(1.0, spread(10.0)), (7.0, spread(60.0))] },
                Line { name: "ordering".to_owned(), points: vec![(1.0, spread(20.0)), (7.0, spread(30.0))] },
            ],
            marks: vec![(4.0, "replica1 is killed".to_owned())],
        }
    }

    #[test]
    fn a_chart_has_its_words_in_both_files() {
        let folder = std::env::temp_dir().join(format!("consort-plot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pen = Pen::find().unwrap();
        let [vector, pixels] = pen.draw(&chart(), &folder.join("a.b")).unwrap();
        let text = std::fs::read_to_string(&vector).unwrap();
        for words in
            ["Throughput", "servers", "transactions a second", "browsing", "ordering", "replica1 is killed"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        // The same without words has fewer dark pixels: the text is drawn, not left out.
        let bare = Chart { title: String::new(), across: String::new(), upwards: String::new(), ..chart() };
        let [_, bare] = pen.draw(&bare, &folder.join("bare")).unwrap();
        let (pixels, bare) = (std::fs::read(pixels).unwrap(), std::fs::read(bare).unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(pixels.starts_with(b"\x89PNG\r\n") && pixels != bare);
    }

    #[test]
    fn a_scale_holds_all_points_and_marks() {
        let (left, right) = reach(&chart());
        assert!(left < 1.0 && right > 7.0 && height(&chart()) > 62.0);
        let late = Chart { marks: vec![(9.0, String::new())], ..chart() };
        assert!(reach(&late).1 > 9.0);
        assert_eq!((reach(&Chart::default()), height(&Chart::default())), ((0.0, 1.0), 1.0));
    }
}
