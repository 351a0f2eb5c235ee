// Questions to the server, with the token that it may ask for.

const TOKEN = "trainyard-token";

/** Why the server does not answer: what is wrong, and what may be done about it. */
export class Refusal extends Error {
  constructor({ type, detail, hint, status }) {
    super(detail);
    Object.assign(this, { type, hint, status });
  }

  /** Whether the same question may be answered another time. */
  get passes() {
    return this.status === undefined || this.status >= 500 || this.status === 408;
  }
}

function headers(body, token) {
  const all = body === undefined ? {} : { "content-type": "application/json" };
  if (token) all.authorization = `Bearer ${token}`;
  return all;
}

let asking;

/** Asks the person for the token: once, however many requests want it. `refused` is the one that was sent, if any. */
function askForToken(refused) {
  // Another request has been given one since.
  if (!asking && sessionStorage.getItem(TOKEN) !== refused) return undefined;
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token-dialog");
    const field = document.getElementById("token");
    document.getElementById("token-wrong").hidden = !refused;
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, field.value.trim());
      field.value = "";
      asking = undefined;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** The answer of a path; with a body the path is asked it. */
export async function ask(path, body, signal) {
  const token = sessionStorage.getItem(TOKEN);
  const options = { method: body === undefined ? "GET" : "POST", headers: headers(body, token), signal };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ type: "unreachable", detail: "the server does not answer", hint: "is `trainyard serve` still running?" });
  }
  if (response.ok) return response.json();
  if (response.status === 401) {
    await askForToken(token);
    return ask(path, body, signal);
  }
  let problem;
  try {
    problem = await response.json();
  } catch {
    problem = { type: "failed", detail: `the server answered ${response.status}`, status: response.status };
  }
  throw new Refusal(problem);
}
