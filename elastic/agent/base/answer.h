/* Answers to commands: a JSON text, or one for people, as a memfd. */
#ifndef RG_AGENT_ANSWER_H
#define RG_AGENT_ANSWER_H

/* Send a text to the asking command, and close. NULL: nothing to say. */
void rg__answer(int sock, const char *text);

/* A text as a descriptor that is the caller's; -1: none. */
int rg__answer_memfd(const char *text);

#endif
