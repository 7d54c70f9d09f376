// Tells the sign-in which time zone this browser is in, and offers it on the page of settings.
(() => {
  "use strict";

  document.addEventListener("DOMContentLoaded", () => {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
    const signIn = document.getElementById("login-form");
    if (signIn) {
      const field = document.createElement("input");
      field.type = "hidden";
      field.name = "time_zone";
      field.value = zone;
      signIn.append(field);
    }
    const offer = document.querySelector("[data-browser-zone]");
    if (offer && zone) {
      offer.textContent += `: ${zone}`;
      offer.hidden = false;
      offer.addEventListener("click", () => {
        document.getElementById("zone").value = zone;
      });
    }
  });
})();
