//! The forms of roles, data and results: a path, a bucket or a claim, as the target takes them.

use super::Target;
use super::draft::{Draft, Flag};
use super::error::LaunchError;
use super::fine_tuning;
use super::software::Engine;
use trainyard_plan::StorageMode;

/// What may be written for a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A folder or a file that the machines mount.
    Path,
    /// A folder, or a data set of the Hugging Face Hub.
    PathOrName,
    /// A folder here, or a prefix in a bucket.
    Folder,
    /// A bucket of S3, with a prefix or without.
    Bucket,
    /// A bucket of any service.
    AnyBucket,
    /// A file system of FSx for Lustre and a folder in it.
    FileSystem,
    /// A PersistentVolumeClaim of Kubernetes.
    Claim,
    /// An IAM role.
    Role,
}

/// Refuses the value of a flag that the draft's target cannot use.
pub(super) fn check(draft: &Draft<'_>, flag: Flag, value: &str) -> Result<(), LaunchError> {
    match Form::of(draft, flag) {
        Some(form) if !form.holds(value) => {
            let (rule, example) = (form.rule(), form.example());
            Err(LaunchError::Option { flag: flag.name(), value: value.to_owned(), rule, example })
        }
        _ => Ok(()),
    }
}

impl Form {
    /// Returns the form that a target takes for a flag; `None` for any text.
    fn of(draft: &Draft<'_>, flag: Flag) -> Option<Self> {
        let on_lustre = draft.job.plan().input().is_some_and(|input| input.storage == StorageMode::FsxLustre);
        match (flag, draft.target) {
            (Flag::Role, _) => Some(Self::Role),
            (Flag::Data, Target::Sagemaker) if on_lustre => Some(Self::FileSystem),
            (Flag::Data | Flag::Results, Target::Sagemaker) => Some(Self::Bucket),
            // What is not a bucket is copied from here.
            (Flag::Data, Target::Skypilot) => takes_names(draft).then_some(Self::Folder),
            (Flag::Results, Target::Skypilot) => Some(Self::AnyBucket),
            (Flag::Data | Flag::Results, Target::Kubernetes) => Some(Self::Claim),
            (Flag::Data, _) if takes_names(draft) => Some(Self::PathOrName),
            (Flag::Data | Flag::Results, _) => Some(Self::Path),
            _ => None,
        }
    }

    fn holds(self, value: &str) -> bool {
        match self {
            Self::Path => !value.contains("://"),
            Self::PathOrName => !value.contains("://") && !is_file(value),
            Self::Folder => !is_file(value),
            Self::Bucket => is_address(value, |scheme| scheme == "s3"),
            Self::AnyBucket => is_address(value, |_| true),
            Self::FileSystem => {
                value.split_once('/').is_some_and(|(id, folder)| id.starts_with("fs-") && !folder.is_empty())
            }
            Self::Claim => is_claim(value),
            Self::Role => is_role(value),
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Self::Path => "it must be a path of a file system that the machines mount: the script opens no addresses",
            Self::PathOrName => {
                "it must be a folder that the machines mount, or a name on the Hugging Face Hub; TRL opens no single file: name the folder that holds it"
            }
            Self::Folder => "it must be a folder: TRL opens no single file; name the folder that holds it",
            Self::Bucket => "it must be a bucket of S3, s3://BUCKET/PREFIX: SageMaker copies from and to S3 only",
            Self::AnyBucket => "it must be a bucket, such as s3://bucket/prefix: SkyPilot brings nothing else back",
            Self::FileSystem => "it must be a file system of FSx for Lustre and a folder in it, FILE-SYSTEM-ID/FOLDER",
            Self::Claim => {
                "it must be the name of a PersistentVolumeClaim: lower-case letters, digits, hyphens and dots, at most 253"
            }
            Self::Role => "it must be the ARN of an IAM role, arn:aws:iam::ACCOUNT:role/ROLE, ACCOUNT being 12 digits",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Path => "/shared/training",
            Self::PathOrName => "trl-lib/Capybara",
            Self::Bucket | Self::AnyBucket | Self::Folder => "s3://bucket/prefix",
            Self::FileSystem => "fs-0123456789abcdef0/training",
            Self::Claim => "training",
            Self::Role => Flag::Role.example(),
        }
    }
}

/// Returns `true` if the script reads its data by the name of a data set.
fn takes_names(draft: &Draft<'_>) -> bool {
    matches!(draft.engine, Engine::Deepspeed | Engine::Fsdp | Engine::Ddp) && fine_tuning::is_trls(draft)
}

/// Returns `true` for the name of a file of samples. `load_dataset` takes it for a data set of that name.
fn is_file(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let plain = [".gz", ".zst"].iter().find_map(|packed| value.strip_suffix(packed)).unwrap_or(&value);
    [".json", ".jsonl", ".csv", ".parquet", ".txt", ".arrow"].iter().any(|ending| plain.ends_with(ending))
}

fn is_address(value: &str, is_scheme: impl Fn(&str) -> bool) -> bool {
    let named = |(scheme, rest): (&str, &str)| !scheme.is_empty() && is_scheme(scheme) && !rest.starts_with('/');
    value.split_once("://").is_some_and(|parts| !parts.1.is_empty() && named(parts))
}

/// Returns `true` for a name as Kubernetes takes it for an object: labels with dots between them (RFC 1123).
fn is_claim(value: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_inner) && label.ends_with(is_inner) && label.chars().all(|c| is_inner(c) || c == '-')
    };
    value.len() <= 253 && value.split('.').all(is_label)
}

/// Returns `true` for a role as CreateTrainingJob takes it: `^arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$`.
fn is_role(value: &str) -> bool {
    let parts: Vec<&str> = value.splitn(6, ':').collect();
    let [arn, partition, service, region, account, role] = parts.as_slice() else { return false };
    let is_of_role = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-/".contains(c);
    let named = role.strip_prefix("role/").is_some_and(|name| !name.is_empty() && name.chars().all(is_of_role));
    let of_aws =
        partition.strip_prefix("aws").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    let is_account = account.len() == 12 && account.chars().all(|c| c.is_ascii_digit());
    [*arn, *service, *region] == ["arn", "iam", ""] && of_aws && is_account && named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_holds_what_its_target_takes() {
        for (form, good, bad) in [
            (Form::Path, vec!["/shared", "text", "../x y"], vec!["s3://bucket/x", "https://host/x"]),
            (
                Form::PathOrName,
                vec!["org/name", "/shared", "org/data.json-like"],
                vec!["s3://bucket/x", "/shared/train.jsonl", "train.JSON", "x.csv.gz", "a/b.parquet", "x.jsonl.zst"],
            ),
            (Form::Folder, vec!["s3://b/x", "data", "/d/"], vec!["s3://b/x.jsonl", "train.txt", "d/x.arrow"]),
            (Form::Bucket, vec!["s3://b", "s3://b/x/"], vec!["/x", "s3://", "s3:///x", "gs://b", "b/x"]),
            (Form::AnyBucket, vec!["s3://b", "gs://b/x"], vec!["/x", "gs://", "://b"]),
            (Form::FileSystem, vec!["fs-0123456789abcdef0/a/b"], vec!["fs-0123456789abcdef0", "/x", "s3://b/x"]),
            (Form::Claim, vec!["data", "data-1.x"], vec!["s3://b/x", "/x/y", "Data", "-data", "data-", "a..b", "a_b"]),
            (
                Form::Role,
                vec!["arn:aws:iam::111122223333:role/r", "arn:aws-us-gov:iam::111122223333:role/a/b"],
                vec![
                    "notarn",
                    "arn:aws:iam::1:role/r",
                    "arn:aws:iam::111122223333:role/",
                    "arn:aws:iam::111122223333:user/r",
                    "arn:aws:iam::111122223333:role/a:b",
                    "arn:gcp:iam::111122223333:role/r",
                ],
            ),
        ] {
            assert!(form.holds(form.example()), "{form:?}");
            assert!(good.into_iter().all(|value| form.holds(value)), "{form:?}");
            assert!(!bad.into_iter().any(|value| form.holds(value)), "{form:?}");
        }
    }
}
