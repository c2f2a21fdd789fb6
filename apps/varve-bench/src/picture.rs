//! Pictures of a page as files: SVG, and PNG of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Options, Tree};
use varve_client::{Failure, Result};
use varve_tool_plan::report::{Document, ReportPart};

/// Pixels of a PNG for each of the SVG, so that it can be printed.
const SCALE: f32 = 2.0;

/// Families that a label may be written in, the one of the SVG first.
const FAMILIES: [&str; 5] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];

/// Writes the pictures of a page into a folder that is there, as `latency.svg`, `latency.png` and so on. Whether there
/// are PNGs: a machine without fonts has none.
pub fn write_pictures(document: &Document, dir: &Path) -> Result<bool> {
    let fonts = fonts();
    let pictures = document.parts.iter().filter_map(|part| match part {
        ReportPart::Picture { heading, svg } => {
            Some((heading.to_lowercase().replace(' ', "-"), svg))
        }
        ReportPart::Heading(_)
        | ReportPart::Facts(_)
        | ReportPart::Table(_)
        | ReportPart::Notes(_) => None,
    });
    for (name, svg) in pictures {
        let file = |extension| dir.join(format!("{name}.{extension}"));
        let failed = |error| Failure::new(format!("write pictures to {}: {error}", dir.display()));
        fs::write(file("svg"), svg).map_err(failed)?;
        if let Some(fonts) = &fonts {
            fs::write(file("png"), png(svg, fonts)?).map_err(failed)?;
        }
    }
    Ok(fonts.is_some())
}

/// The fonts of the machine; none where there are none, as labels would be missing without a word.
fn fonts() -> Option<Arc<Database>> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let families = FAMILIES.map(Family::Name);
    let query = Query { families: &families, ..Query::default() };
    let found = fonts.query(&query).and_then(|id| fonts.face(id));
    let any = found.or_else(|| fonts.faces().next());
    let (family, _) = any.and_then(|face| face.families.first())?.clone();
    fonts.set_sans_serif_family(family);
    Some(Arc::new(fonts))
}

fn png(svg: &str, fonts: &Arc<Database>) -> Result<Vec<u8>> {
    let failed = |error: &dyn ToString| Failure::new(format!("draw a PNG: {}", error.to_string()));
    let options = Options { fontdb: Arc::clone(fonts), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| failed(&error))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let pixels = size.and_then(|size| Pixmap::new(size.width(), size.height()));
    let mut pixels = pixels.ok_or_else(|| failed(&"it has no size"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| failed(&error))
}
