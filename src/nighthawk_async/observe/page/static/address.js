// The node that the address of the page names, so that a link to it can be shared.

// The stream tells one start of the service from another: in another one, the same id is another node.
export function nodeInAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const id = given.get("node");
  return id === null ? null : { id, stream: given.get("stream") };
}

export function showInAddress(id, stream) {
  const named = id === null ? "" : `#${new URLSearchParams({ node: id, stream: stream ?? "" })}`;
  history.replaceState(null, "", location.pathname + location.search + named);
}
