// What people do to a node. The service decides whether it may be done; the page only asks.

import { askForText, askToConfirm } from "./dialogs.js";
import { authorization, findFault, getToken, setToken } from "./token.js";

export class Actions {
  #store;
  #notify;
  #onToken;
  #onParking;
  #entering = null;
  canAct = false;
  // What tells the trees of two processes apart, which both number their nodes from 1.
  stream = null;

  constructor(store, { notify, onToken, onParking }) {
    this.#store = store;
    this.#notify = notify;
    this.#onToken = onToken;
    this.#onParking = onParking;
  }

  async cancel(node) {
    const { stream } = this;
    const text = `“${node.name}” ends as soon as it comes to it, with everything below it.`;
    if (await askToConfirm({ title: "Cancel?", text, button: "Cancel it" })) await this.send(node, "cancel", { stream });
  }

  async steer(node) {
    const { stream } = this;
    const text = `The model reads it before its next answer in “${node.name}”.`;
    const asked = { title: "Steer", text, label: "Message", button: "Send", isLong: true, isAboutNode: true };
    const said = await askForText(asked);
    if (said) await this.send(node, "steer", { stream, text: said });
  }

  // Who was asked to wait and has not come to it yet can be told to go on, too.
  async suspendOrResume(node) {
    const isToWait = node.state !== "suspended" && !this.#store.isParking(node.id);
    const isAccepted = await this.send(node, isToWait ? "suspend" : "resume", {});
    if (!isAccepted || node.state === "suspended") return;
    this.#store.setParking(node.id, isToWait);
    this.#onParking();
  }

  // True when the service has taken one. Whoever asks meanwhile waits for the same one.
  enterToken(text = "It is kept in this tab until it is closed.") {
    this.#entering ??= this.#askForToken(text).finally(() => (this.#entering = null));
    return this.#entering;
  }

  // What came with the address is tried out before it is needed, as what is typed is.
  async checkToken() {
    const token = getToken();
    const fault = await findFault(token);
    if (!fault?.isWrong || getToken() !== token) return;
    setToken("");
    this.#onToken();
    this.#notify(fault.text, true);
  }

  async #askForToken(text) {
    const asked = { title: "Token", label: "Token", button: "Use it", isSecret: true };
    for (let fault = null; ; ) {
      const token = await askForText({ ...asked, text: fault?.text ?? text, isBad: fault !== null });
      if (!token) return false;
      fault = await findFault(token);
      if (fault) continue;
      setToken(token);
      this.#onToken();
      return true;
    }
  }

  // True when the service has accepted it.
  async send(node, action, body) {
    const whole = { stream: this.stream, ...body };
    if (!getToken() && !(await this.enterToken())) return false;
    let response;
    try {
      response = await fetch(`api/nodes/${encodeURIComponent(node.id)}/${action}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...authorization() },
        body: JSON.stringify(whole),
      });
    } catch {
      this.#notify("The service cannot be reached.", true);
      return false;
    }
    if (response.ok) {
      this.#notify(`${action}: accepted`);
      return true;
    }
    const problem = await response.json().catch(() => ({}));
    if (response.status === 401) {
      setToken("");
      this.#onToken();
    }
    this.#notify(problem.detail ?? `The service answers ${response.status}.`, true);
    return false;
  }
}
