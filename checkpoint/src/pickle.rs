//! The pickles that PyTorch writes around tensors, read without running anything.
//!
//! A pickle is a program for a small stack machine, and whoever runs all of it runs what its author wrote. Here only the
//! instructions are known that build dictionaries of tensors, and only the names that `torch.save` gives to tensors and
//! their storages; everything else is refused by name. Values live in one list and refer to each other by place, so
//! that no depth or sharing in a file makes more of them than the file has bytes.
//!
//! Sources: Python's `pickletools` for the instructions; PyTorch, `torch/serialization.py` and `torch/_utils.py`, for
//! what a saved tensor consists of.

use safetensors::Dtype;
use std::collections::BTreeMap;

/// A tensor as a pickle describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// The name of the file in the archive that holds its storage.
    pub(crate) key: String,
    pub(crate) dtype: Dtype,
    /// Elements of the whole storage.
    pub(crate) storage: usize,
    /// The place of its first element in the storage.
    pub(crate) offset: usize,
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// Elements between neighbours in each dimension.
    pub(crate) strides: Vec<usize>,
}

/// Keys under which a dictionary of a whole training holds the weights.
const INSIDE: [&str; 2] = ["state_dict", "model"];

/// The most values that a pickle may make; a tensor takes some twenty.
const VALUES_MAX: usize = 1 << 22;

/// Returns the tensors of the dictionary that `bytes` make, by name, or of the one that it holds under `state_dict` or
/// `model`.
///
/// # Errors
///
/// What is wrong: an instruction, a name or a value that weights do not need.
pub(crate) fn tensors(bytes: &[u8]) -> Result<Vec<(String, Described)>, String> {
    let mut machine =
        Machine { bytes, at: 0, stack: Vec::new(), marks: Vec::new(), memo: BTreeMap::new(), nodes: Vec::new() };
    let result = machine.run()?;
    machine.weights(result)
}

/// A value on the stack.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// `None`, a truth value or a number that is not whole: nothing here depends on which.
    Plain,
    Whole(i64),
    Name(Name),
    /// The place of a value in the list of them.
    Node(usize),
}

/// A value that has parts.
#[derive(Debug)]
enum Node {
    Text(String),
    /// A tuple or a list.
    Sequence(Vec<Value>),
    Dictionary(Vec<(Value, Value)>),
    Storage {
        key: String,
        dtype: Dtype,
        elements: usize,
    },
    Tensor(Box<Described>),
}

/// A name of Python's that a file of weights may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Storage(Dtype),
}

impl Name {
    fn of(module: &str, name: &str) -> Result<Self, String> {
        let storage = |name: &str| {
            Some(match name {
                "FloatStorage" => Dtype::F32,
                "DoubleStorage" => Dtype::F64,
                "HalfStorage" => Dtype::F16,
                "BFloat16Storage" => Dtype::BF16,
                "LongStorage" => Dtype::I64,
                "IntStorage" => Dtype::I32,
                "ShortStorage" => Dtype::I16,
                "CharStorage" => Dtype::I8,
                "ByteStorage" => Dtype::U8,
                "BoolStorage" => Dtype::BOOL,
                _ => return None,
            })
        };
        let known = match (module, name) {
            ("collections", "OrderedDict") => Some(Self::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Self::RebuildTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Self::RebuildParameter),
            ("torch", name) => storage(name).map(Self::Storage),
            _ => None,
        };
        known.ok_or_else(|| format!("it asks for `{module}.{name}`, and only tensors are read"))
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    /// The heights of the stack at the marks that are open.
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value>,
    nodes: Vec<Node>,
}

const ENDS: &str = "it ends within an instruction";
const EMPTY: &str = "it takes a value from an empty stack";

impl<'a> Machine<'a> {
    /// Runs the program, and returns the value that it leaves.
    fn run(&mut self) -> Result<Value, String> {
        loop {
            if self.nodes.len().max(self.memo.len()).max(self.stack.len()).max(self.marks.len()) > VALUES_MAX {
                return Err(format!("it makes more than {VALUES_MAX} values"));
            }
            let code = self.byte()?;
            match code {
                b'.' => return self.pop(),
                // The protocol, and the length of a frame: nothing follows from them.
                0x80 => self.skip(1)?,
                0x95 => self.skip(8)?,
                b'(' => self.marks.push(self.stack.len()),
                b'N' | 0x88 | 0x89 => self.stack.push(Value::Plain),
                b'G' => {
                    self.skip(8)?;
                    self.stack.push(Value::Plain);
                }
                b'K' | b'M' | b'J' | 0x8a => self.whole(code)?,
                b'X' | 0x8c | b'T' | b'U' => self.text(code)?,
                b'c' | 0x93 => self.name(code)?,
                b'q' | b'r' | 0x94 | b'h' | b'j' => self.memoise(code)?,
                b')' | b']' | b't' | 0x85..=0x87 => self.sequence(code)?,
                b'}' => self.push(Node::Dictionary(Vec::new())),
                b's' | b'u' | b'a' | b'e' => self.fill(code)?,
                b'Q' => self.storage()?,
                b'R' => self.call()?,
                // What is taken away again, and the state of an ordered dictionary: the versions of its modules.
                b'0' | b'b' => drop(self.pop()?),
                other => return Err(format!("it has the instruction {other:#04x}, and only tensors are read")),
            }
        }
    }

    fn whole(&mut self, code: u8) -> Result<(), String> {
        let number = match code {
            b'K' => i64::from(self.byte()?),
            b'M' => i64::from(u16::from_le_bytes(self.array()?)),
            b'J' => i64::from(i32::from_le_bytes(self.array()?)),
            _ => {
                let length = usize::from(self.byte()?);
                let bytes = self.take(length)?;
                let mut wide = [if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 }; 8];
                wide.get_mut(..length).ok_or("it has a number of more than eight bytes")?.copy_from_slice(bytes);
                i64::from_le_bytes(wide)
            }
        };
        self.stack.push(Value::Whole(number));
        Ok(())
    }

    fn text(&mut self, code: u8) -> Result<(), String> {
        let length = match code {
            0x8c | b'U' => usize::from(self.byte()?),
            _ => u32::from_le_bytes(self.array()?) as usize,
        };
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| "it has a text that is not UTF-8")?.to_owned();
        self.push(Node::Text(text));
        Ok(())
    }

    fn name(&mut self, code: u8) -> Result<(), String> {
        let name = if code == b'c' {
            let (module, name) = (self.line()?.to_owned(), self.line()?);
            Name::of(&module, name)?
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            Name::of(self.string(module)?, self.string(name)?)?
        };
        self.stack.push(Value::Name(name));
        Ok(())
    }

    /// Notes the value on top of the stack, or puts one there that was noted.
    fn memoise(&mut self, code: u8) -> Result<(), String> {
        let place = match code {
            b'q' | b'h' => u32::from(self.byte()?),
            0x94 => self.memo.len() as u32,
            _ => u32::from_le_bytes(self.array()?),
        };
        if matches!(code, b'h' | b'j') {
            let noted = self.memo.get(&place).ok_or("it takes a value that was not noted")?;
            self.stack.push(*noted);
        } else {
            self.memo.insert(place, *self.stack.last().ok_or(EMPTY)?);
        }
        Ok(())
    }

    fn sequence(&mut self, code: u8) -> Result<(), String> {
        let parts = match code {
            b')' | b']' => Vec::new(),
            b't' => self.since_mark()?,
            _ => {
                let start = self.stack.len().checked_sub(usize::from(code - 0x84)).ok_or(EMPTY)?;
                self.stack.split_off(start)
            }
        };
        self.push(Node::Sequence(parts));
        Ok(())
    }

    /// Puts values into the dictionary or list below them.
    fn fill(&mut self, code: u8) -> Result<(), String> {
        let values = match code {
            b'u' | b'e' => self.since_mark()?,
            _ => {
                let count = if code == b's' { 2 } else { 1 };
                let start = self.stack.len().checked_sub(count).ok_or(EMPTY)?;
                self.stack.split_off(start)
            }
        };
        let Some(Value::Node(node)) = self.stack.last() else { return Err("it fills what holds nothing".into()) };
        match (&mut self.nodes[*node], code) {
            (Node::Dictionary(pairs), b's' | b'u') if values.len().is_multiple_of(2) => {
                pairs.extend(values.chunks(2).map(|pair| (pair[0], pair[1])));
                Ok(())
            }
            (Node::Sequence(parts), b'a' | b'e') => {
                parts.extend(values);
                Ok(())
            }
            _ => Err("it fills what holds no such values".into()),
        }
    }

    /// Makes a storage: `('storage', type, key, location, elements)`.
    fn storage(&mut self) -> Result<(), String> {
        let told = self.pop()?;
        let [_, kind, key, _, elements] = self.parts(told)?[..] else {
            return Err("it has a storage of another form than PyTorch's".into());
        };
        let Value::Name(Name::Storage(dtype)) = kind else { return Err("it has a storage without a type".into()) };
        let (key, elements) = (self.string(key)?.to_owned(), size(elements)?);
        self.push(Node::Storage { key, dtype, elements });
        Ok(())
    }

    /// Calls a name with its arguments.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Value::Name(name) = callee else { return Err("it calls what is no function".into()) };
        match (name, self.parts(arguments)?.as_slice()) {
            (Name::OrderedDict, []) => self.push(Node::Dictionary(Vec::new())),
            (Name::RebuildParameter, [tensor, ..]) => {
                let tensor = *tensor;
                self.stack.push(tensor);
            }
            (Name::RebuildTensor, [storage, offset, shape, strides, ..]) => {
                let (offset, shape, strides) = (size(*offset)?, self.sizes(*shape)?, self.sizes(*strides)?);
                let Some(Node::Storage { key, dtype, elements }) = self.node(*storage) else {
                    return Err("it has a tensor without a storage".into());
                };
                let (key, dtype, storage) = (key.clone(), *dtype, *elements);
                let tensor = Described { key, dtype, storage, offset, shape, strides };
                self.push(Node::Tensor(Box::new(tensor)));
            }
            _ => return Err("it calls a function with other arguments than PyTorch does".into()),
        }
        Ok(())
    }

    /// Returns the tensors of a dictionary.
    fn weights(&self, result: Value) -> Result<Vec<(String, Described)>, String> {
        let pairs = |value: Value| match self.node(value) {
            Some(Node::Dictionary(pairs)) => Some(pairs),
            _ => None,
        };
        let outer = pairs(result).ok_or("it holds no dictionary of tensors")?;
        let inside = outer.iter().find_map(|(key, value)| {
            let is_weights = self.string(*key).is_ok_and(|key| INSIDE.contains(&key));
            pairs(*value).filter(|_| is_weights)
        });
        let mut tensors = Vec::new();
        for (key, value) in inside.unwrap_or(outer) {
            let name = self.string(*key)?;
            let Some(Node::Tensor(tensor)) = self.node(*value) else {
                return Err(format!("`{name}` is no tensor"));
            };
            tensors.push((name.to_owned(), (**tensor).clone()));
        }
        Ok(tensors)
    }

    fn push(&mut self, node: Node) {
        self.stack.push(Value::Node(self.nodes.len()));
        self.nodes.push(node);
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| EMPTY.into())
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, String> {
        let height = self.marks.pop().ok_or("it goes back to a mark that is not there")?;
        if height > self.stack.len() {
            return Err(EMPTY.into());
        }
        Ok(self.stack.split_off(height))
    }

    fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(node) => Some(&self.nodes[node]),
            _ => None,
        }
    }

    fn parts(&self, value: Value) -> Result<&Vec<Value>, String> {
        match self.node(value) {
            Some(Node::Sequence(parts)) => Ok(parts),
            _ => Err("it has another value where a tuple stands".into()),
        }
    }

    fn sizes(&self, value: Value) -> Result<Vec<usize>, String> {
        self.parts(value)?.iter().map(|part| size(*part)).collect()
    }

    fn string(&self, value: Value) -> Result<&str, String> {
        match self.node(value) {
            Some(Node::Text(text)) => Ok(text),
            _ => Err("it has another value where a name stands".into()),
        }
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many as were asked for"))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let taken = self.bytes[self.at..].get(..count).ok_or(ENDS)?;
        self.at += count;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), String> {
        self.take(count).map(drop)
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(ENDS)?;
        self.at += end + 1;
        std::str::from_utf8(&rest[..end]).map_err(|_| "it has a name that is not UTF-8".into())
    }
}

/// Returns a number that counts elements.
fn size(value: Value) -> Result<usize, String> {
    match value {
        Value::Whole(number) => usize::try_from(number).map_err(|_| format!("it has a size of {number}")),
        _ => Err("it has another value where a size stands".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{'w': tensor}` as `torch.save` writes it (protocol 2), with this function in the place of `_rebuild_tensor_v2`.
    fn saved(function: &str) -> Vec<u8> {
        let text = |text: &str| {
            let mut code = vec![b'X'];
            code.extend((text.len() as u32).to_le_bytes());
            code.extend(text.as_bytes());
            code
        };
        [
            &[0x80, 2, b'}', b'q', 0][..],
            &text("w"),
            format!("c{function}\n").as_bytes(),
            b"((",
            &text("storage"),
            b"ctorch\nHalfStorage\nq\x01",
            &text("0"),
            &text("cpu"),
            b"K\x06tQ",
            b"K\x02K\x02K\x02\x86K\x02K\x01\x86\x89ccollections\nOrderedDict\n)Rtq\x02Rs.",
        ]
        .concat()
    }

    fn tensor() -> Described {
        Described { key: "0".into(), dtype: Dtype::F16, storage: 6, offset: 2, shape: vec![2, 2], strides: vec![2, 1] }
    }

    #[test]
    fn a_dictionary_of_tensors_is_read() {
        let saved = saved("torch._utils\n_rebuild_tensor_v2");
        assert_eq!(tensors(&saved), Ok(vec![("w".into(), tensor())]));
        // Of a whole training only the weights.
        let inner = &saved[2..saved.len() - 1];
        let outer = [b"\x80\x02}X\x05\0\0\0epochK\x03s\x8c\x0astate_dict".as_slice(), inner, b"s."].concat();
        assert_eq!(tensors(&outer), Ok(vec![("w".into(), tensor())]));
    }

    #[test]
    fn names_that_could_run_something_are_refused() {
        for name in ["os\nsystem", "builtins\neval", "torch\nload", "torch._utils\n_rebuild_sparse_tensor"] {
            let error = tensors(&saved(name)).expect_err(name);
            assert!(error.contains(&name.replace('\n', ".")), "{error}");
        }
        let made = b"\x80\x02cos\nsystem\n(X\x02\0\0\0lstR.";
        assert!(tensors(made).expect_err("it runs a command").contains("os.system"));
    }

    #[test]
    fn what_is_cut_off_or_makes_no_sense_is_an_error() {
        let saved = saved("torch._utils\n_rebuild_tensor_v2");
        for end in 0..saved.len() {
            assert!(tensors(&saved[..end]).is_err(), "{end}");
        }
        for place in 0..saved.len() {
            for value in [0, b'.', b'R', b's', b'u', b't', b'h', 0xff] {
                let mut damaged = saved.clone();
                damaged[place] = value;
                // Whatever it says, it says it without a panic.
                let _ = tensors(&damaged);
            }
        }
    }

    #[test]
    fn a_short_file_makes_no_large_values() {
        // Each list holds the one before twice: 2⁶⁴ entries if they were written out.
        let doubled = b"h\x00h\x00\x86q\x00".repeat(64);
        assert!(tensors(&[b"\x80\x02)q\x00".as_slice(), &doubled, b"."].concat()).is_err());
        // Nesting without end is as deep as the file is long.
        assert!(tensors(&[b"\x80\x02)".as_slice(), &vec![0x85; 1 << 20], b"."].concat()).is_err());
        let many = tensors(&vec![b']'; VALUES_MAX + 2]).expect_err("too many");
        assert!(many.contains("more than"), "{many}");
    }
}
