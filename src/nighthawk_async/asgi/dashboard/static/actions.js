// What people do to a node. The service decides whether it may be done; the page only asks.

import { askForText, askToConfirm } from "./dialogs.js";
import { authorization, getToken, setToken } from "./token.js";

export class Actions {
  #notify;
  #onToken;
  canAct = false;

  constructor(notify, onToken) {
    this.#notify = notify;
    this.#onToken = onToken;
  }

  async cancel(node) {
    const text = `“${node.name}” ends as soon as it comes to it, with everything below it.`;
    if (await askToConfirm({ title: "Cancel?", text, button: "Cancel it" })) await this.send(node, "cancel", {});
  }

  async steer(node) {
    const text = `The model reads it before its next answer in “${node.name}”.`;
    const said = await askForText({ title: "Steer", text, label: "Message", button: "Send", isLong: true });
    if (said) await this.send(node, "steer", { text: said });
  }

  async suspendOrResume(node) {
    await this.send(node, node.state === "suspended" ? "resume" : "suspend", {});
  }

  async enterToken(text = "It is kept in this tab until it is closed.") {
    const token = await askForText({ title: "Token", text, label: "Token", button: "Use it", isSecret: true });
    if (token) {
      setToken(token);
      this.#onToken();
    }
    return Boolean(token);
  }

  // True when the service has accepted it.
  async send(node, action, body) {
    if (!getToken() && !(await this.enterToken())) return false;
    let response;
    try {
      response = await fetch(`api/nodes/${encodeURIComponent(node.id)}/${action}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...authorization() },
        body: JSON.stringify(body),
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
