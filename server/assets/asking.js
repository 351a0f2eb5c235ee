// Which question is under way: the newest one, and never a queue of them.

import { ask } from "./api.js";

/** Changes that follow each other this fast, in milliseconds, are one. */
const TOGETHER = 20;
/** A question that was overtaken may still end if it is younger than this: whoever drags a slider sees it follow. */
const GRACE = 150;

/** Asks drafts for one scenario. `show` gets each answer or refusal with the time of the change that it answers. */
export class Drafts {
  constructor({ question, show, idle }) {
    Object.assign(this, { question, show, idle });
  }

  /** Something changed. */
  wanted() {
    this.since ??= performance.now();
    clearTimeout(this.timer);
    if (this.underWay) {
      this.overtaken ??= setTimeout(() => this.underWay?.abort(), Math.max(0, GRACE - (performance.now() - this.begun)));
      return;
    }
    this.timer = setTimeout(() => this.begin(), TOGETHER);
  }

  /** What was wanted is answered by something else. */
  forget() {
    clearTimeout(this.timer);
    this.since = undefined;
    this.underWay?.abort();
  }

  /** Nobody waits any more. */
  drop() {
    this.dropped = true;
    this.forget();
  }

  async begin() {
    const { since } = this;
    const own = new AbortController();
    this.since = undefined;
    this.underWay = own;
    this.begun = performance.now();
    const question = this.question("draft");
    try {
      const answer = await ask("plan", question, own.signal);
      if (!own.signal.aborted) this.show({ answer, since });
    } catch (refusal) {
      // What was overtaken is answered by what overtook it.
      if (refusal.name !== "AbortError") this.show({ refusal, since });
    }
    clearTimeout(this.overtaken);
    this.overtaken = undefined;
    this.underWay = undefined;
    if (this.dropped) return;
    if (this.since !== undefined) this.begin();
    else this.idle();
  }

  get resting() {
    return !this.underWay && this.since === undefined;
  }
}
