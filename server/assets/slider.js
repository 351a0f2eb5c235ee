// A slider with a field beside it that says the same and takes any value.

let made = 0;

/** Steps of a slider from `from` to `to`; with `open` one more, which is: no limit. */
function scale({ from, to, steps, linear, open }) {
  const last = open ? steps + 1 : steps;
  return {
    last,
    value(position) {
      if (open && position >= last) return null;
      const part = position / steps;
      return linear ? from + (to - from) * part : from * (to / from) ** part;
    },
    position(value) {
      if (value === null) return last;
      const part = linear ? (value - from) / (to - from) : Math.log(value / from) / Math.log(to / from);
      return Math.round(Math.min(1, Math.max(0, part)) * steps);
    },
  };
}

/**
 * Fills `root` with a labelled slider; `example` is what may be written instead of what cannot be read. `print` and `read` turn values into text and back; `round` says which values the
 * slider stops at; `change` is called with every new value.
 */
export function slider(root, { label, print, read, example, none = "none", round = (value) => value, change, ...range }) {
  root.append(document.getElementById("slider").content.cloneNode(true));
  const [name, track, field, wrong] = root.children;
  const { last, value, position } = scale(range);
  const at = (step) => (value(step) === null ? null : round(value(step)));
  made += 1;
  track.id = `slider-${made}`;
  wrong.id = `wrong-${made}`;
  const refuse = (is) => {
    field.setAttribute("aria-invalid", String(is));
    if (is) field.setAttribute("aria-describedby", wrong.id);
    else field.removeAttribute("aria-describedby");
    wrong.hidden = !is;
    wrong.textContent = is ? `Write ${example}${range.open ? `, or “${none}”` : ""}.` : "";
  };
  const isNone = () => range.open && ["", "none", none].includes(field.value.trim().toLowerCase());
  name.htmlFor = track.id;
  const rename = (text) => {
    name.textContent = text;
    field.setAttribute("aria-label", `${text}, exactly`);
  };
  rename(label);
  Object.assign(track, { min: 0, max: last, step: 1 });
  // What the person moves is left where it was put: written back, a small step would be rounded away.
  const show = (current, skip) => {
    const text = current === null ? none : print(current);
    if (skip !== track) track.value = position(current);
    track.setAttribute("aria-valuetext", text);
    if (skip !== field) {
      field.value = text;
      refuse(false);
    }
  };
  track.addEventListener("input", () => {
    const current = at(Number(track.value));
    show(current, track);
    change(current);
  });
  field.addEventListener("input", () => {
    const current = isNone() ? null : read(field.value);
    refuse(current === undefined);
    if (current === undefined) return;
    show(current, field);
    change(current);
  });
  field.addEventListener("change", () => {
    const current = isNone() ? null : read(field.value);
    if (current !== undefined) show(current);
  });
  return { show, rename };
}
