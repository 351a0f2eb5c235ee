//! Where the headers are that CUDA's compiler needs.
#![cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only CUDA asks"))]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Headers that kernels include: types of half precision, matrix units, groups of threads.
const HEADERS: [&str; 4] = ["cuda_fp16.h", "cuda_bf16.h", "mma.h", "cooperative_groups.h"];

/// Folders where CUDA is looked for without `CUDA_PATH`, in this order; and the program that shows that it was
/// installed with the system. As `cubecl-cuda` 0.11.3 does, in `install::cuda_path`.
const FOLDERS: [&str; 2] = ["/usr/local/cuda", "/opt/cuda"];
const SYSTEM: (&str, &str) = ("/usr/bin/nvcc", "/usr");

/// What the user may do where they are missing.
pub(super) const HINT: &str = "install CUDA's headers and set CUDA_PATH to the folder whose `include` has them";

/// Returns the folder with CUDA's headers, or what is missing. `variable` is the value of `CUDA_PATH`.
pub(super) fn headers(variable: Option<OsString>, exists: &dyn Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let installed = FOLDERS.into_iter().find(|folder| exists(Path::new(folder)));
    let with_system = || exists(Path::new(SYSTEM.0)).then_some(SYSTEM.1);
    let Some(root) = variable.map(PathBuf::from).or_else(|| installed.or_else(with_system).map(PathBuf::from)) else {
        let searched = format!("{}, {} or {}", FOLDERS[0], FOLDERS[1], SYSTEM.0);
        return Err(format!("CUDA is not there: `CUDA_PATH` is not set, and there is no {searched}"));
    };
    let folder = root.join("include");
    match HEADERS.into_iter().find(|header| !exists(&folder.join(header))) {
        Some(header) => Err(format!("CUDA's header `{header}` is not in {}", folder.display())),
        None => Ok(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variable: Option<&str>, there: &[&str]) -> Result<PathBuf, String> {
        headers(variable.map(Into::into), &|path| there.iter().any(|known| Path::new(known).starts_with(path)))
    }

    #[test]
    fn the_variable_comes_before_the_usual_folders() {
        let everywhere = |root: &str| HEADERS.map(|header| format!("{root}/include/{header}"));
        let (own, usual) = (everywhere("/home/me/cuda"), everywhere("/usr/local/cuda"));
        let there: Vec<&str> = own.iter().chain(&usual).map(String::as_str).collect();
        assert_eq!(found(Some("/home/me/cuda"), &there), Ok("/home/me/cuda/include".into()));
        assert_eq!(found(None, &there), Ok("/usr/local/cuda/include".into()));
        let system = everywhere("/usr");
        let there: Vec<&str> = system.iter().map(String::as_str).chain([SYSTEM.0]).collect();
        assert_eq!(found(None, &there), Ok("/usr/include".into()));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = found(None, &["/usr/bin/gcc"]).expect_err("no CUDA");
        assert!(error.contains("CUDA_PATH") && error.contains("/usr/local/cuda"), "{error}");
        let error = found(Some("/x"), &["/x/include/cuda_fp16.h"]).expect_err("one header of four");
        assert_eq!(error, "CUDA's header `cuda_bf16.h` is not in /x/include");
    }
}
