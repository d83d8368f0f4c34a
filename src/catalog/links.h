/* Doubly linked lists of pages by 32-bit page numbers. A page is in at most one list, so one pair
 * of links per page serves all of them. */
#ifndef KVSHELF_CATALOG_LINKS_H
#define KVSHELF_CATALOG_LINKS_H

#include <stdint.h>

#define PAGE_NONE UINT32_MAX

struct page_links {
    uint32_t before, after;
};

struct page_list {
    uint32_t first, last;
    uint32_t count;
};

static const struct page_list PAGE_LIST_EMPTY = {PAGE_NONE, PAGE_NONE, 0};

static inline void list_push_first(struct page_list *list, struct page_links *links, uint32_t page)
{
    links[page] = (struct page_links){PAGE_NONE, list->first};
    if (list->first != PAGE_NONE)
        links[list->first].before = page;
    else
        list->last = page;
    list->first = page;
    list->count++;
}

static inline void list_push_last(struct page_list *list, struct page_links *links, uint32_t page)
{
    links[page] = (struct page_links){list->last, PAGE_NONE};
    if (list->last != PAGE_NONE)
        links[list->last].after = page;
    else
        list->first = page;
    list->last = page;
    list->count++;
}

static inline void list_remove(struct page_list *list, struct page_links *links, uint32_t page)
{
    struct page_links at = links[page];
    if (at.before != PAGE_NONE)
        links[at.before].after = at.after;
    else
        list->first = at.after;
    if (at.after != PAGE_NONE)
        links[at.after].before = at.before;
    else
        list->last = at.before;
    list->count--;
}

/* Moves all of `from` behind the last of `to`. */
static inline void list_append_all(struct page_list *to, struct page_list *from,
                                   struct page_links *links)
{
    if (from->count == 0)
        return;
    if (to->count == 0) {
        *to = *from;
    } else {
        links[to->last].after = from->first;
        links[from->first].before = to->last;
        to->last = from->last;
        to->count += from->count;
    }
    *from = PAGE_LIST_EMPTY;
}

#endif
