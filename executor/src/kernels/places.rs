//! Rows that are added up by place.

use super::operation::{contiguous, from_numbers, plain};
use burn::backend::Flex;
use burn::tensor::{IndexingUpdateOp, Int, Tensor};

/// Adds rows up at their places, (places, width) → (entries, width): the gradient of a table whose rows were picked.
pub(crate) fn sums_by_place(rows: Tensor<2>, places: Tensor<1, Int>, entries: usize) -> Tensor<2> {
    let ([_, width], device) = (rows.dims(), rows.device());
    let Some(numbers) = plain(rows.clone()) else {
        let zeros = Tensor::<2>::zeros([entries, width], &device).cast(rows.dtype());
        return zeros.select_assign(0, places, rows, IndexingUpdateOp::Add);
    };
    drop(rows);
    let numbers = contiguous(numbers);
    let mut sums = vec![0.0; entries * width];
    for (place, row) in places.into_data().iter::<i64>().zip(numbers.storage::<f32>().chunks_exact(width)) {
        let first = usize::try_from(place).expect("a place is a row of the table") * width;
        sums[first..first + width].iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
    }
    Tensor::from_primitive::<Flex>(from_numbers(sums, [entries, width]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{tensor, use_kernels};
    use super::*;
    use burn::tensor::TensorData;

    #[test]
    fn sums_are_those_of_burn() {
        for [rows, width, entries] in [[1, 1, 1], [9, 5, 4], [40, 3, 64]] {
            let places: Vec<i32> = (0..rows).map(|row| (row * row * 7 % entries) as i32).collect();
            let sums = |used| {
                let places = TensorData::new(places.clone(), [rows]);
                use_kernels(used);
                let rows = tensor([rows, width], 3);
                sums_by_place(rows.clone(), Tensor::from_data(places, &rows.device()), entries).into_data()
            };
            assert_eq!(sums(true), sums(false));
        }
    }
}
