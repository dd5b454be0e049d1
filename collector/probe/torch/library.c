#include "probe/torch/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SLOT_JUMP R_X86_64_JUMP_SLOT
#define SLOT_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define SLOT_JUMP R_AARCH64_JUMP_SLOT
#define SLOT_DATA R_AARCH64_GLOB_DAT
#endif

static bool named(const struct dl_phdr_info *info, const char *prefix)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;

    return strncmp(file, prefix, strlen(prefix)) == 0;
}

struct search {
    const char *prefix;
    char path[4096];
};

static int take_path(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    size_t length = strlen(info->dlpi_name);

    (void)size;
    if (!named(info, search->prefix) || length >= sizeof(search->path))
        return 0;
    memcpy(search->path, info->dlpi_name, length + 1);
    return 1;
}

void *torch_library_find(const char *prefix)
{
    struct search search = {.prefix = prefix};

    if (dl_iterate_phdr(take_path, &search) == 0)
        return NULL;
    return dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY);
}

void *torch_symbol(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

/* What the dynamic section of one library says about its relocations. */
struct relocations {
    const ElfW(Rela) * table[2];
    size_t count[2];
    size_t relative; /* entries at the front of table[1] that name no symbol */
    const ElfW(Sym) * symbols;
    const char *strings;
};

/* The loader has made these addresses absolute (glibc) or left them relative (musl). */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) value)
{
    return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct relocations *found)
{
    const ElfW(Dyn) *entry = NULL;

    *found = (struct relocations){0};
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_JMPREL:
            found->table[0] = at(info, entry->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            found->count[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            found->table[1] = at(info, entry->d_un.d_ptr);
            break;
        case DT_RELASZ:
            found->count[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELACOUNT:
            found->relative = entry->d_un.d_val;
            break;
        case DT_SYMTAB:
            found->symbols = at(info, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            found->strings = at(info, entry->d_un.d_ptr);
            break;
        default:
            break;
        }
    }
    return found->symbols != NULL && found->strings != NULL;
}

/* Is the page of `slot` write-protected after relocation (RELRO)? */
static bool sealed(const struct dl_phdr_info *info, uintptr_t slot)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;

        /* The loader seals whole pages: the last, shared one stays writable. */
        if (header->p_type == PT_GNU_RELRO && slot >= (start & ~(page - 1)) &&
            slot < ((start + header->p_memsz) & ~(page - 1)))
            return true;
    }
    return false;
}

struct replacement {
    const char *prefix;
    const struct torch_slot *slots;
    int count;
    struct torch_places *places; /* NULL: never switched back */
    int found;                   /* slots, or a negative errno */
};

/* Another attach, of a forked child, finds them listed. False without room. */
static bool list(struct torch_places *places, _Atomic uintptr_t *slot, uintptr_t ours)
{
    for (uint32_t i = 0; i < places->count; i++)
        if (places->at[i].slot == slot)
            return true;
    if (places->count == TORCH_PLACES_MAX)
        return false;
    places->at[places->count].slot = slot;
    places->at[places->count].own = atomic_load_explicit(slot, memory_order_relaxed);
    places->at[places->count].ours = ours;
    places->count++;
    return true;
}

static int write_slot(const struct dl_phdr_info *info, uintptr_t address,
                      void (*value)(void), struct torch_places *places)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)(address & ~(page - 1));
    _Atomic uintptr_t *slot = (_Atomic uintptr_t *)address;
    bool protect = sealed(info, address);

    if (protect && mprotect(start, page, PROT_READ | PROT_WRITE) != 0)
        return -errno;
    if (places != NULL && !list(places, slot, (uintptr_t)value))
        return -ENOSPC;
    /* Other threads call through the slot meanwhile: they get the old function or the
     * new one, never half of each. No partner: both functions do the same. */
    atomic_store_explicit(slot, (uintptr_t)value, memory_order_relaxed);
    if (places == NULL && protect && mprotect(start, page, PROT_READ) != 0)
        return -errno;
    return 0;
}

void torch_slots_switch(const struct torch_places *places, bool ours)
{
    /* Relaxed: as in write_slot(). What somebody else has put there since stays. */
    for (uint32_t i = 0; i < places->count; i++) {
        uintptr_t from = ours ? places->at[i].own : places->at[i].ours;
        uintptr_t to = ours ? places->at[i].ours : places->at[i].own;

        (void)atomic_compare_exchange_strong_explicit(
            places->at[i].slot, &from, to, memory_order_relaxed, memory_order_relaxed);
    }
}

/* The index of the task's slot that is called `symbol`, else -1. */
static int wanted(const struct replacement *task, const char *symbol)
{
    for (int i = 0; i < task->count; i++)
        if (strcmp(symbol, task->slots[i].symbol) == 0)
            return i;
    return -1;
}

static int replace_in(const struct dl_phdr_info *info, const struct relocations *found,
                      int which, struct replacement *task)
{
#ifdef SLOT_JUMP
    for (size_t i = which == 1 ? found->relative : 0; i < found->count[which]; i++) {
        const ElfW(Rela) *rela = &found->table[which][i];
        unsigned long type = ELF64_R_TYPE(rela->r_info);
        const ElfW(Sym) *symbol = &found->symbols[ELF64_R_SYM(rela->r_info)];

        if (type != SLOT_JUMP && type != SLOT_DATA)
            continue;
        int slot = wanted(task, found->strings + symbol->st_name);

        if (slot < 0)
            continue;
        void (*value)(void) = task->slots[slot].value;
        int error = 0;

        if (value != NULL)
            error =
                write_slot(info, info->dlpi_addr + rela->r_offset, value, task->places);
        if (error != 0)
            return error;
        task->found++;
    }
#else
    (void)info, (void)found, (void)which, (void)task;
#endif
    return 0;
}

static int replace_slots(struct dl_phdr_info *info, size_t size, void *data)
{
    struct replacement *task = data;
    struct relocations found;

    (void)size;
    if (!named(info, task->prefix) || !read_dynamic(info, &found))
        return 0;
    for (int which = 0; which < 2; which++) {
        int error =
            found.table[which] != NULL ? replace_in(info, &found, which, task) : 0;

        if (error != 0) {
            task->found = error;
            return 1;
        }
    }
    return 0;
}

int torch_slots_replace(const char *prefix, const struct torch_slot *slots, int count,
                        struct torch_places *places)
{
    struct replacement task = {
        .prefix = prefix, .slots = slots, .count = count, .places = places};

    dl_iterate_phdr(replace_slots, &task);
    return task.found;
}
