// Light, dark, or what the system says.

const KEY = "nighthawk-async:theme";
const THEMES = ["system", "light", "dark"];

export function setUpTheme(button) {
  let theme = THEMES.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(KEY, theme);
    show();
  });
  show();
}
