// What is said against a field goes when its value is changed, for it was said of another one: the
// server looks again when the form is saved. When the last has gone, so does the note above.
document.addEventListener("input", ({ target }) => {
  // Boxes, and parts such as a date and its time, have numbers below the id of their field.
  const ids = [target.id, target.id?.replace(/_\d+$/, "")];
  const errors = ids.map((id) => document.getElementById(`${id}_error`)).find((list) => list?.matches(".errorlist"));
  if (!errors) return;
  const field = errors.closest(".errors");
  for (const part of field?.querySelectorAll("[aria-invalid]") ?? [target]) part.removeAttribute("aria-invalid");
  field?.classList.remove("errors");
  errors.remove();
  if (!document.querySelector(".errorlist")) document.querySelector("p.errornote")?.remove();
});
