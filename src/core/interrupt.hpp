#pragma once

namespace fusecalc {

// From now on the first Ctrl-C sets a flag instead of ending the program; a second one ends it.
void note_interrupts();

// Throws an Error with Fault::kInterrupted after a Ctrl-C.
void stop_if_interrupted();
bool interrupted();

}  // namespace fusecalc
