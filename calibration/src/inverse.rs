//! The inverse of a curvature, which is how sure a fit is of what it found.

/// The diagonal of the inverse of a symmetric positive definite matrix, by Cholesky's decomposition.
pub(crate) fn inverse_diagonal(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let order = matrix.len();
    for column in 0..order {
        for row in column..order {
            let known: f64 = (0..column).map(|k| matrix[row][k] * matrix[column][k]).sum();
            let rest = matrix[row][column] - known;
            matrix[row][column] = if row == column { rest.sqrt() } else { rest / matrix[column][column] };
        }
    }
    // Column by column of the inverse of the factor; the diagonal sought is the sum of squares of each column.
    (0..order)
        .map(|column| {
            let mut inverse = vec![0.0; order];
            for row in column..order {
                let unit = if row == column { 1.0 } else { 0.0 };
                let known: f64 = (column..row).map(|k| matrix[row][k] * inverse[k]).sum();
                inverse[row] = (unit - known) / matrix[row][row];
            }
            inverse.iter().map(|value| value * value).sum()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diagonal_is_that_of_the_inverse() {
        // The inverse of [[4, 2], [2, 3]] is [[3, -2], [-2, 4]] / 8.
        let diagonal = inverse_diagonal(vec![vec![4.0, 2.0], vec![2.0, 3.0]]);
        assert!((diagonal[0] - 0.375).abs() < 1e-12 && (diagonal[1] - 0.5).abs() < 1e-12, "{diagonal:?}");
    }
}
