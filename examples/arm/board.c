/* Starts a program on the emulated boards; printf goes to the host by semihosting. */
#include <stdint.h>
#include <stdlib.h>

extern char stack_top[];
extern void initialise_monitor_handles(void);
extern int main(void);

/* exit() calls it */
void _fini(void)
{
}

void reset(void)
{
    *(volatile uint32_t *)0xE000ED88 |= 0xFU << 20; /* switch on the floating-point unit */
    initialise_monitor_handles();
    exit(main());
}

/* the first stack pointer, and the reset handler */
__attribute__((section(".vectors"), used)) static void *const vectors[] = {stack_top, (void *)reset};
