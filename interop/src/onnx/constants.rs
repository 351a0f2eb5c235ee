//! Whole numbers that are computed from shapes: of them exporters make the shapes that a reshape asks for.

use super::graph::{Dims, Graph, Kind};
use super::infer::{axis, known};
use super::proto::Node;

/// Most values that are computed.
const VALUES_MAX: usize = 4096;

/// The values of what a node makes of values that are known.
pub(super) fn values(graph: &Graph, node: &Node) -> Option<Vec<i64>> {
    let input = |place: usize| known(graph, node, place).ok();
    let values = match node.op_type.as_str() {
        "Constant" => match node.attribute.first()? {
            attribute if attribute.name == "value" => attribute.t.as_ref()?.values()?,
            attribute if attribute.name == "value_int" => vec![attribute.i?],
            attribute if attribute.name == "value_ints" => attribute.ints.clone(),
            _ => return None,
        },
        "Shape" => {
            let dims = graph.of(node.input_at(0)?).dims?;
            let rank = (dims.len() as u64).cast_signed();
            let bound = |value: i64| if value < 0 { value + rank } else { value }.clamp(0, rank);
            let (start, end) = (bound(node.int("start").unwrap_or(0)), bound(node.int("end").unwrap_or(rank)));
            dims.into_iter().skip(start as usize).take((end - start).max(0) as usize).map(u64::cast_signed).collect()
        }
        "Identity" | "Cast" | "Squeeze" | "Unsqueeze" | "Reshape" => input(0)?,
        "Concat" => {
            let parts = (0..node.input.len()).map(input).collect::<Option<Vec<_>>>()?;
            parts.concat()
        }
        "Gather" => {
            let (from, places) = (input(0)?, input(1)?);
            let at = |place: &i64| from.get(axis(node, *place, from.len()).ok()?).copied();
            places.iter().map(at).collect::<Option<_>>()?
        }
        "Slice" => {
            let from = input(0)?;
            let (start, end) = (*input(1)?.first()?, *input(2)?.first()?);
            let size = (from.len() as u64).cast_signed();
            let bound = |value: i64| if value < 0 { value.saturating_add(size) } else { value }.clamp(0, size) as usize;
            if node.input_at(4).is_some() && input(4)? != [1] {
                return None;
            }
            from.get(bound(start)..bound(end))?.to_vec()
        }
        "Add" | "Sub" | "Mul" | "Div" => {
            let (a, b) = (input(0)?, input(1)?);
            let count = a.len().max(b.len());
            let of = |values: &[i64], place: usize| values.get(place).or(values.first()).copied();
            let each = |place| {
                let (a, b) = (of(&a, place)?, of(&b, place)?);
                match node.op_type.as_str() {
                    "Add" => a.checked_add(b),
                    "Sub" => a.checked_sub(b),
                    "Mul" => a.checked_mul(b),
                    _ => a.checked_div(b),
                }
            };
            (0..count).map(each).collect::<Option<_>>()?
        }
        _ => return None,
    };
    (values.len() <= VALUES_MAX).then_some(values)
}

/// The shape of what is made of nothing that flows.
pub(super) fn shape(graph: &Graph, node: &Node) -> Option<Dims> {
    match node.op_type.as_str() {
        "Constant" => match node.attribute.first()? {
            attribute if attribute.name == "value" => {
                attribute.t.as_ref()?.dims.iter().map(|size| u64::try_from(*size).ok()).collect()
            }
            attribute if attribute.name == "value_ints" => Some(vec![attribute.ints.len() as u64]),
            _ => Some(Vec::new()),
        },
        "ConstantOfShape" => match graph.of(node.input_at(0)?).kind {
            Kind::Known(Some(sizes)) => sizes.iter().map(|size| u64::try_from(*size).ok()).collect(),
            _ => None,
        },
        "Shape" => values(graph, node).map(|values| vec![values.len() as u64]),
        _ => None,
    }
}
