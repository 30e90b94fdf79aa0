// On a narrow screen the sidebar lies over the page: a link in it closes it, as it leads to what lies behind.
export default function ({ parentElement }) {
  // The parent is the root of a shadow tree.
  const rail = (parentElement.host || parentElement).closest('[data-testid="stSidebar"]');
  if (!rail || rail.dataset.closes) return;
  rail.dataset.closes = "yes";
  rail.addEventListener("click", event => {
    if (!matchMedia("(max-width:768px)").matches || !event.target.closest('[data-testid="stPageLink-NavLink"]')) return;
    const close = rail.querySelector('[data-testid="stSidebarCollapseButton"] button');
    if (close) close.click();
  });
}
