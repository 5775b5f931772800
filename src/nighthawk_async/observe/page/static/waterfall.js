// When a node went on, within the time of its root.

import { duration } from "./format.js";
import { isActive } from "./states.js";

export function extentOf(node, root, now) {
  const end = (each) => each.ended_at ?? (isActive(each) ? now : each.began_at);
  const whole = Math.max(end(root) - root.began_at, 1e-6);
  const share = (at) => Math.min(Math.max((at - root.began_at) / whole, 0), 1);
  const left = share(node.began_at);
  return { left, width: Math.max(share(end(node)) - left, 0), seconds: end(node) - node.began_at };
}

export function drawExtent(span, node, root, kind, now) {
  const { left, width, seconds } = extentOf(node, root, now);
  span.className = `span ${kind}`;
  span.style.left = `min(${(left * 100).toFixed(2)}%, calc(100% - 2px))`;
  span.style.width = `${(width * 100).toFixed(2)}%`;
  span.title = `begins after ${duration(node.began_at - root.began_at) || "0 ms"}, takes ${duration(seconds)}`;
}
