// Asks a built site's own search, whose worker needs no browser: node site_search.js SITE WORD...
// Prints a line of JSON for each word: the addresses that are found, best first.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, ...words] = process.argv.slice(2);
const folder = path.join(site, "assets", "javascripts", "workers");
const file = fs.readdirSync(folder).find((name) => name.startsWith("search"));
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"));

let answered = () => {};
const self = { postMessage: (message) => answered(message) };
vm.runInNewContext(fs.readFileSync(path.join(folder, file), "utf8"), { self, Intl, console });

function ask(message) {
  return new Promise((resolve, reject) => {
    answered = (answer) => (answer.type === 4 ? reject(new Error("the search failed")) : resolve(answer));
    self.onmessage({ data: message });
  });
}

(async () => {
  await ask({ type: 0, data: index });
  for (const word of words) {
    const filter = { input: [], aggregation: { input: [], filter: [] } };
    const answer = await ask({ type: 2, data: { input: word, filter } });
    console.log(JSON.stringify(answer.data.items.map(({ id }) => index.items[id].location)));
  }
})();
