/* File systems by the magic number of statfs(2). The numbers are the kernel's ABI; those that
 * linux/magic.h does not have are written out. */
#include "pagefile/filesystem.h"

#include <linux/magic.h>
#include <stddef.h>
#include <sys/vfs.h>

enum kind { LOCAL, MEMORY, NETWORK };

static const struct {
    unsigned long magic;
    const char *name;
    enum kind kind;
} known[] = {
    {EXT4_SUPER_MAGIC, "ext4", LOCAL},
    {XFS_SUPER_MAGIC, "xfs", LOCAL},
    {BTRFS_SUPER_MAGIC, "btrfs", LOCAL},
    {F2FS_SUPER_MAGIC, "f2fs", LOCAL},
    {OVERLAYFS_SUPER_MAGIC, "overlay", LOCAL},
    {0x2fc12fc1, "zfs", LOCAL},
    {0xca451a4e, "bcachefs", LOCAL},
    {MSDOS_SUPER_MAGIC, "vfat", LOCAL},
    {0x2011bab0, "exfat", LOCAL},
    {0x5346544e, "ntfs", LOCAL},
    {TMPFS_MAGIC, "tmpfs", MEMORY},
    {RAMFS_MAGIC, "ramfs", MEMORY},
    {HUGETLBFS_MAGIC, "hugetlbfs", MEMORY},
    {NFS_SUPER_MAGIC, "nfs", NETWORK},
    {SMB_SUPER_MAGIC, "smb", NETWORK},
    {0xff534d42, "cifs", NETWORK},
    {0xfe534d42, "smb2", NETWORK},
    {FUSE_SUPER_MAGIC, "fuse", NETWORK},
    {CEPH_SUPER_MAGIC, "ceph", NETWORK},
    {AFS_SUPER_MAGIC, "afs", NETWORK},
    {V9FS_MAGIC, "9p", NETWORK},
    {0x0bd00bd0, "lustre", NETWORK},
    {0x47504653, "gpfs", NETWORK},
    {0x19830326, "beegfs", NETWORK},
    {0x01161970, "gfs2", NETWORK},
    {OCFS2_SUPER_MAGIC, "ocfs2", NETWORK},
    {0x20030528, "orangefs", NETWORK},
    {0x013111a8, "ibrix", NETWORK},
    {0x61756673, "aufs", LOCAL},
};

struct filesystem filesystem_of(int fd)
{
    struct filesystem found = {.name = "unknown"};
    struct statfs about;
    if (fstatfs(fd, &about) != 0) {
        return found;
    }
    /* f_type is signed and its width differs between machines; magic numbers have 32 bits. */
    unsigned long magic = (unsigned long)about.f_type & 0xffffffffUL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].magic == magic) {
            found.name = known[i].name;
            found.network = known[i].kind == NETWORK;
            found.in_memory = known[i].kind == MEMORY;
            break;
        }
    }
    return found;
}
