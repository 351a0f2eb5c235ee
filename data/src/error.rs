//! What can be wrong with data, said with the place, the value and what is allowed.

use std::io;
use std::path::PathBuf;

/// Why data cannot be trained on.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// No path was given.
    #[error("`data.path` is empty; name a file or a folder to train on")]
    EmptyPath,
    /// A file or folder could not be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The named file is not text.
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    /// A line of JSON Lines without a text.
    #[error("`{}`, line {line}: {problem}", path.display())]
    Line {
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The defect.
        problem: String,
    },
    /// A table or records, of which nobody says what of them is text.
    #[error("`{}` is a table or a record, not plain text", path.display())]
    Table { path: PathBuf },
    /// A folder without text.
    #[error("`{}` holds no text files ({skipped} other files were skipped)", path.display())]
    NoText {
        path: PathBuf,
        /// Binary files in it.
        skipped: usize,
    },
    /// The sequence of the model is longer than the text.
    #[error(
        "`{}` has {found} {unit}, but one sample of the model takes {sample} (`model.seq_len` is {sequence})",
        path.display()
    )]
    TooShort {
        /// The file or folder of the text.
        path: PathBuf,
        /// Tokens found.
        found: usize,
        /// Bytes, or tokens.
        unit: &'static str,
        /// Tokens of a sample and its target.
        sample: usize,
        /// Tokens of a sample.
        sequence: usize,
    },
    /// Too little text for one step.
    #[error(
        "`{}` has {found} {unit}, but a global batch of {batch} samples of {sample} {unit} besides the held-out part \
         needs {needed}", path.display()
    )]
    TooLittle {
        /// The file or folder of the text.
        path: PathBuf,
        /// Tokens found.
        found: usize,
        /// Bytes, or tokens.
        unit: &'static str,
        /// Tokens needed.
        needed: usize,
        /// Samples of a step.
        batch: usize,
        /// Tokens of a sample.
        sample: usize,
    },
    /// Held-out samples that are trained on.
    #[error("the held-out data `{}` and `{}`, which is trained on, have samples in common", path.display(), data.display())]
    Overlap {
        path: PathBuf,
        /// The path of the data that is trained on.
        data: PathBuf,
    },
    /// Held-out samples of other classes.
    #[error("the classes of the held-out data `{}` are {found}; those that are trained on are {allowed}", path.display())]
    OtherClasses {
        path: PathBuf,
        /// Their names, in order.
        found: String,
        /// The names of the classes that are trained on, in order.
        allowed: String,
    },
    /// Too few samples for one step.
    #[error(
        "`{}` has {found} samples to train on besides the held-out part, but a global batch takes {batch}",
        path.display()
    )]
    TooFew {
        /// The file or folder of the samples.
        path: PathBuf,
        /// Samples found.
        found: usize,
        /// Samples of a step.
        batch: usize,
    },
    /// Nothing tells what a file or folder is.
    #[error("`{}` is of no known kind; {wanted} are read from {allowed}", path.display())]
    UnknownKind {
        path: PathBuf,
        /// The kind of data that the model reads.
        wanted: String,
        /// The kinds of files that may be named.
        allowed: &'static str,
    },
    /// Data of a kind that the model does not read.
    #[error("`{}` is {kind}, but the model reads {wanted}", path.display())]
    Foreign {
        path: PathBuf,
        /// The kind of data found.
        kind: &'static str,
        /// The kind of data that the model reads.
        wanted: String,
    },
    /// Samples of another size than the model's.
    #[error("`{}` holds {found}, but the model reads {wanted}", path.display())]
    Sides {
        path: PathBuf,
        /// The samples found there.
        found: String,
        /// The samples that the model reads.
        wanted: String,
    },
    /// A file that breaks off or contradicts itself.
    #[error("`{}` is damaged: {problem}", path.display())]
    Damaged {
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// An array that a file or folder should hold.
    #[error("`{}` holds no array `{array}`; it must hold {allowed}", path.display())]
    NoArray {
        path: PathBuf,
        array: String,
        /// The array that it must hold.
        allowed: &'static str,
    },
    /// An array of another type or shape.
    #[error("array `{array}` of `{}` has {field} {found}, but it must be {allowed}", path.display())]
    Array {
        path: PathBuf,
        array: String,
        /// `dtype` or `shape`.
        field: &'static str,
        /// The value of that field.
        found: String,
        /// The accepted values.
        allowed: String,
    },
    /// A class that the model does not have.
    #[error("sample {sample} of `{}` has label {label}, but the model has {classes} classes, 0 to {}", path.display(), classes - 1)]
    Label {
        path: PathBuf,
        /// Index of the sample, from 0.
        sample: usize,
        label: i64,
        /// Classes of the model.
        classes: u64,
    },
    /// More classes than the model has.
    #[error("`{}` has {found} classes, but the model has {classes}", path.display())]
    Classes {
        path: PathBuf,
        /// Classes there.
        found: usize,
        /// Classes of the model.
        classes: u64,
    },
    /// A folder of images without classes.
    #[error("`{}` has no folder for any class; images are read from CLASS/NAME.jpg and CLASS/NAME.png", path.display())]
    NoClasses { path: PathBuf },
    /// A class without images.
    #[error("`{}` is the folder of a class, but holds no JPEG or PNG files", path.display())]
    EmptyClass { path: PathBuf },
    /// Not one image that can be decoded.
    #[error("none of the {images} images of `{}` can be decoded", path.display())]
    AllCorrupt {
        path: PathBuf,
        /// Images tried.
        images: usize,
    },
    /// A tokenizer that cannot be used.
    #[error("cannot use the tokenizer `{}`: {problem}", path.display())]
    Tokenizer {
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// A tokenizer without a token that masked training needs.
    #[error("the tokenizer `{}` has none of the tokens {tokens}, but a masked language model needs one", path.display())]
    NoMask {
        path: PathBuf,
        /// The tokens looked for.
        tokens: &'static str,
    },
    /// A tokenizer beside data that has none to do.
    #[error("`data.tokenizer` is `{}`, but {kind} is not text", path.display())]
    TokenizerUnused {
        /// The tokenizer.
        path: PathBuf,
        kind: &'static str,
    },
    /// More tokens than the model has entries.
    #[error("{what} has {entries} entries, but `model.vocab` is {vocabulary}")]
    Vocabulary {
        /// The tokenizer, or the bytes.
        what: String,
        entries: u64,
        /// Entries of the model's token table.
        vocabulary: u64,
    },
    /// A token id that the model does not have.
    #[error("token {position} of `{}` is {id}, but `model.vocab` is {vocabulary}", path.display())]
    TokenId {
        path: PathBuf,
        /// Index of the token, from 0.
        position: usize,
        id: i64,
        /// Entries of the model's token table.
        vocabulary: u64,
    },
}

impl DataError {
    /// Returns what the user may do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::EmptyPath | Self::Unreadable { .. } => "name a file or folder that is there and can be read",
            Self::NotText { .. } | Self::NoText { .. } => {
                "name a UTF-8 text file, JSON Lines with a field `text`, a folder that holds some, or token ids as \
                 one-dimensional .npy or as `tokens` of .safetensors"
            }
            Self::Line { .. } => "each line is an object with a field `text`",
            Self::Table { .. } => {
                "write its texts as JSON Lines with a field `text`; a file that is to be trained on as it is ends in .txt"
            }
            Self::TooShort { .. } => "a smaller model.seq_len needs less; more text, or a folder of files, gives more",
            Self::TooLittle { .. } => "a smaller training.global_batch or model.seq_len needs less",
            Self::TooFew { .. } => "a smaller training.global_batch needs less",
            Self::Overlap { .. } => {
                "keep it beside the data, and its samples out of it; without it a part of the data is held out"
            }
            Self::OtherClasses { .. } => "give both the same folders of classes",
            Self::UnknownKind { .. } => "packed files (.gz, .zip, .tar) must be unpacked first",
            Self::Foreign { .. } => "name other data, or choose a model that reads this",
            Self::Sides { .. } => "set model.image_size, model.channels or model.inputs to what the data has",
            Self::Damaged { .. } => "fetch or write the file again",
            Self::NoArray { .. } => "save the array under that name",
            Self::Array { .. } => "convert the array before it is saved",
            Self::Label { .. } | Self::Classes { .. } => {
                "set model.classes, or model.outputs of an mlp, to what the data has"
            }
            Self::NoClasses { .. } => "sort the images into one folder for each class",
            Self::EmptyClass { .. } => "remove the folder, or put the images of that class there",
            Self::AllCorrupt { .. } => "fetch the images again",
            Self::Tokenizer { .. } => "name the tokenizer.json of a Hugging Face tokenizer",
            Self::NoMask { .. } => "take the tokenizer that belongs to a masked language model",
            Self::TokenizerUnused { .. } => "leave the tokenizer out",
            Self::Vocabulary { .. } => "set model.vocab to at least as many entries, or take a smaller tokenizer",
            Self::TokenId { id: ..0, .. } => {
                "token ids are counted from 0; write those that stand for nothing as another token"
            }
            Self::TokenId { .. } => "set model.vocab to more than the largest token id",
        }
    }
}
