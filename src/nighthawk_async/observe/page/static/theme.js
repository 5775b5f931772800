// Light, dark, or what the system says.

import { keptIn } from "./storage.js";

const KEY = "nighthawk-async:theme";
const THEMES = ["system", "light", "dark"];

export function setUpTheme(button) {
  const kept = keptIn("localStorage", KEY);
  let theme = THEMES.includes(kept.value) ? kept.value : "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    kept.value = theme;
    show();
  });
  show();
}
