tessera_kernel:
        pushq   %rbp
        pushq   %r15
        pushq   %r14
        pushq   %r13
        pushq   %r12
        pushq   %rbx
        subq    $48, %rsp
        movq    8(%rdi), %rax
        movq    %rax, -56(%rsp)
        movq    24(%rdi), %r13
        movq    40(%rdi), %rax
        movq    %rax, -120(%rsp)
        movq    48(%rdi), %rax
        movq    %rax, -16(%rsp)
        movq    56(%rdi), %rax
        movq    %rax, -24(%rsp)
        movq    64(%rdi), %rax
        movq    %rax, -64(%rsp)
        movq    %r8, -112(%rsp)
        movl    (%r8), %eax
        cmpq    %rdx, %rsi
        jge     .LBB0_36
        testl   %eax, %eax
        jne     .LBB0_36
        movq    %rdx, %r11
        movq    -120(%rsp), %rax
        leaq    15(%rax), %rdi
        shrq    $4, %rdi
        movq    %rax, %rdx
        shlq    $5, %rdx
        movq    %rdx, 40(%rsp)
        movq    %rax, %rdx
        shlq    $6, %rdx
        movq    %rdx, -104(%rsp)
        vmovdqa64       .LCPI0_0(%rip), %zmm0
        vxorps  %xmm1, %xmm1, %xmm1
        vmovdqa64       .LCPI0_1(%rip), %zmm2
        leaq    (,%rax,4), %r15
        leaq    (,%r13,4), %r12
        movq    %r11, -96(%rsp)
        movq    %r13, -40(%rsp)
        movq    %rdi, -8(%rsp)
        movq    %r12, -48(%rsp)
.LBB0_3:
        vmovaps %zmm1, 960(%rcx)
        vmovaps %zmm1, 896(%rcx)
        vmovaps %zmm1, 832(%rcx)
        vmovaps %zmm1, 768(%rcx)
        vmovaps %zmm1, 704(%rcx)
        vmovaps %zmm1, 640(%rcx)
        vmovaps %zmm1, 576(%rcx)
        vmovaps %zmm1, 512(%rcx)
        vmovaps %zmm1, 448(%rcx)
        vmovaps %zmm1, 384(%rcx)
        vmovaps %zmm1, 320(%rcx)
        vmovaps %zmm1, 256(%rcx)
        vmovaps %zmm1, 192(%rcx)
        vmovaps %zmm1, 128(%rcx)
        vmovaps %zmm1, 64(%rcx)
        vmovaps %zmm1, (%rcx)
        movq    %rsi, %rax
        orq     %rdi, %rax
        shrq    $32, %rax
        testq   %rax, %rax
        je      .LBB0_4
        je      .LBB0_4
        movq    %rsi, %rax
        xorl    %edx, %edx
        divq    %rdi
        movq    %rax, %rbx
        jmp     .LBB0_7
.LBB0_4:
        movl    %esi, %eax
        xorl    %edx, %edx
        divl    %edi
        movl    %eax, %ebx
.LBB0_7:
        movq    %rbx, %r8
        shlq    $4, %r8
        movq    %rdx, %r10
        shlq    $4, %r10
        shlq    $6, %rdx
        movq    -112(%rsp), %rax
        movl    (%rax), %eax
        testq   %r13, %r13
        movq    %rsi, (%rsp)
        jle     .LBB0_9
        testl   %eax, %eax
        jne     .LBB0_9
        movq    %r8, %rax
        imulq   %r13, %rax
        movq    %r8, %rbp
        negq    %rbp
        movq    -56(%rsp), %rdi
        subq    %r8, %rdi
        movq    %r8, -80(%rsp)
        testq   %r8, %r8
        setns   %sil
        cmpq    $16, %rdi
        setge   %r8b
        andb    %sil, %r8b
        movb    %r8b, -121(%rsp)
        movq    %r10, %rsi
        negq    %rsi
        movq    %rsi, %r8
        sarq    $63, %r8
        andnq   %rsi, %r8, %rsi
        cmpq    $16, %rsi
        movl    $16, %r9d
        cmovgeq %r9, %rsi
        movq    -120(%rsp), %r14
        subq    %r10, %r14
        movq    %r14, %r8
        sarq    $63, %r8
        movq    %r10, %r11
        andnq   %r14, %r8, %r10
        cmpq    $16, %r10
        cmovgeq %r9, %r10
        movq    %r11, -72(%rsp)
        testq   %r11, %r11
        setns   %r8b
        movq    %r14, -88(%rsp)
        cmpq    $16, %r14
        setge   %r9b
        andb    %r8b, %r9b
        movb    %r9b, -122(%rsp)
        movq    -24(%rsp), %r8
        leaq    (%r8,%rdx), %r14
        movq    -16(%rsp), %r9
        leaq    (%r9,%rax,4), %r8
        vpbroadcastd    %esi, %zmm3
        vpcmpltd        %zmm0, %zmm3, %k1
        vpbroadcastd    %r10d, %zmm3
        vpcmpgtd        %zmm2, %zmm3, %k0 {%k1}
        movq    %rbx, %rax
        shlq    $6, %rax
        orq     $32, %rax
        imulq   %r13, %rax
        addq    %r9, %rax
        vpxor   %xmm3, %xmm3, %xmm3
        vxorps  %xmm4, %xmm4, %xmm4
        vxorps  %xmm5, %xmm5, %xmm5
        vxorps  %xmm6, %xmm6, %xmm6
        vxorps  %xmm7, %xmm7, %xmm7
        vxorps  %xmm8, %xmm8, %xmm8
        vxorps  %xmm9, %xmm9, %xmm9
        vxorps  %xmm10, %xmm10, %xmm10
        vxorps  %xmm11, %xmm11, %xmm11
        vxorps  %xmm12, %xmm12, %xmm12
        vxorps  %xmm13, %xmm13, %xmm13
        vxorps  %xmm14, %xmm14, %xmm14
        vxorps  %xmm15, %xmm15, %xmm15
        vxorps  %xmm16, %xmm16, %xmm16
        vxorps  %xmm17, %xmm17, %xmm17
        vxorps  %xmm18, %xmm18, %xmm18
        xorl    %r9d, %r9d
        movq    %rdx, 16(%rsp)
        movq    %rbx, 8(%rsp)
        movq    %rbp, -32(%rsp)
.LBB0_11:
        movq    %r9, %r12
        negq    %r12
        movq    %r12, %rsi
        sarq    $63, %rsi
        andnq   %r12, %rsi, %rsi
        cmpq    $16, %rsi
        movl    $16, %edx
        cmovgeq %rdx, %rsi
        subq    %r9, %r13
        movq    %r13, %r10
        sarq    $63, %r10
        andnq   %r13, %r10, %r11
        cmpq    $16, %r11
        cmovgeq %rdx, %r11
        movq    %r9, 24(%rsp)
        testq   %r9, %r9
        setns   %r10b
        cmpq    $16, %r13
        setge   %bpl
        andb    %r10b, %bpl
        testb   %bpl, -122(%rsp)
        movq    %r14, 32(%rsp)
        movq    %r14, %r10
        je      .LBB0_12
        xorl    %ebx, %ebx
.LBB0_15:
        vmovups (%r10), %zmm19
        movq    40(%rsp), %r9
        prefetcht1      (%r10,%r9)
        leaq    2560(%rcx), %r9
        vmovaps %zmm19, (%r9,%rbx)
        addq    $64, %rbx
        addq    %r15, %r10
        cmpq    $1024, %rbx
        jne     .LBB0_15
        jmp     .LBB0_16
.LBB0_12:
        leaq    2560(%rcx), %rbx
        xorl    %r14d, %r14d
.LBB0_13:
        cmpq    %r12, %r14
        movq    %r15, %rdx
        setge   %r15b
        cmpq    %r14, %r13
        setg    %r9b
        andb    %r15b, %r9b
        movq    %rdx, %r15
        movzbl  %r9b, %r9d
        negl    %r9d
        kmovd   %r9d, %k1
        kandw   %k0, %k1, %k1
        vmovups (%r10), %zmm19 {%k1} {z}
        vmovaps %zmm19, (%rbx)
        incq    %r14
        addq    $64, %rbx
        addq    %rdx, %r10
        cmpq    $16, %r14
        jne     .LBB0_13
.LBB0_16:
        andb    -121(%rsp), %bpl
        cmpb    $1, %bpl
        jne     .LBB0_19
        xorl    %esi, %esi
        xorl    %r10d, %r10d
        movq    -40(%rsp), %r13
        leaq    1280(%rcx), %r14
        movq    -48(%rsp), %r12
        movq    -32(%rsp), %rbp
.LBB0_18:
        vmovups (%r8,%rsi), %zmm19
        prefetcht1      (%rax,%rsi)
        vmovaps %zmm19, (%r14,%r10)
        addq    $64, %r10
        addq    %r12, %rsi
        cmpq    $1024, %r10
        jne     .LBB0_18
        jmp     .LBB0_21
.LBB0_19:
        vpbroadcastd    %esi, %zmm19
        vpcmpltud       %zmm0, %zmm19, %k1
        vpbroadcastd    %r11d, %zmm19
        vpcmpnleud      %zmm2, %zmm19, %k1 {%k1}
        movq    %r8, %rsi
        leaq    1280(%rcx), %r14
        movq    %r14, %r10
        xorl    %r11d, %r11d
        movq    -40(%rsp), %r13
        movq    -48(%rsp), %r12
        movq    -32(%rsp), %rbp
.LBB0_20:
        cmpq    %rbp, %r11
        setge   %r9b
        cmpq    %r11, %rdi
        setg    %bl
        andb    %r9b, %bl
        movzbl  %bl, %r9d
        negl    %r9d
        kmovd   %r9d, %k2
        kandw   %k1, %k2, %k2
        vmovups (%rsi), %zmm19 {%k2} {z}
        vmovaps %zmm19, (%r10)
        incq    %r11
        addq    $64, %r10
        addq    %r12, %rsi
        cmpq    $16, %r11
        jne     .LBB0_20
.LBB0_21:
        movq    24(%rsp), %r9
        addq    $16, %r9
        leaq    1024(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1088(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1152(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1216(%rcx), %rsi
        prefetcht0      (%rsi)
        prefetcht0      (%r14)
        leaq    1344(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1408(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1472(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1536(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1600(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1664(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1728(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1792(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1856(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1920(%rcx), %rsi
        prefetcht0      (%rsi)
        leaq    1984(%rcx), %rsi
        prefetcht0      (%rsi)
        movq    $-2, %r11
        leaq    2624(%rcx), %rsi
.LBB0_22:
        vmovaps -64(%rsi), %zmm19
        vmovaps (%rsi), %zmm20
        vfmadd231ps     1288(%rcx,%r11,4){1to16}, %zmm19, %zmm18
        vfmadd231ps     1352(%rcx,%r11,4){1to16}, %zmm19, %zmm17
        vfmadd231ps     1416(%rcx,%r11,4){1to16}, %zmm19, %zmm16
        vfmadd231ps     1480(%rcx,%r11,4){1to16}, %zmm19, %zmm15
        vfmadd231ps     1544(%rcx,%r11,4){1to16}, %zmm19, %zmm14
        vfmadd231ps     1608(%rcx,%r11,4){1to16}, %zmm19, %zmm13
        vfmadd231ps     1672(%rcx,%r11,4){1to16}, %zmm19, %zmm12
        vfmadd231ps     1736(%rcx,%r11,4){1to16}, %zmm19, %zmm11
        vfmadd231ps     1800(%rcx,%r11,4){1to16}, %zmm19, %zmm10
        vfmadd231ps     1864(%rcx,%r11,4){1to16}, %zmm19, %zmm9
        vfmadd231ps     1928(%rcx,%r11,4){1to16}, %zmm19, %zmm8
        vfmadd231ps     1992(%rcx,%r11,4){1to16}, %zmm19, %zmm7
        vfmadd231ps     2056(%rcx,%r11,4){1to16}, %zmm19, %zmm6
        vfmadd231ps     2120(%rcx,%r11,4){1to16}, %zmm19, %zmm5
        vfmadd231ps     2184(%rcx,%r11,4){1to16}, %zmm19, %zmm4
        vfmadd231ps     2248(%rcx,%r11,4){1to16}, %zmm19, %zmm3
        vfmadd231ps     1292(%rcx,%r11,4){1to16}, %zmm20, %zmm18
        vfmadd231ps     1356(%rcx,%r11,4){1to16}, %zmm20, %zmm17
        vfmadd231ps     1420(%rcx,%r11,4){1to16}, %zmm20, %zmm16
        vfmadd231ps     1484(%rcx,%r11,4){1to16}, %zmm20, %zmm15
        vfmadd231ps     1548(%rcx,%r11,4){1to16}, %zmm20, %zmm14
        vfmadd231ps     1612(%rcx,%r11,4){1to16}, %zmm20, %zmm13
        vfmadd231ps     1676(%rcx,%r11,4){1to16}, %zmm20, %zmm12
        vfmadd231ps     1740(%rcx,%r11,4){1to16}, %zmm20, %zmm11
        vfmadd231ps     1804(%rcx,%r11,4){1to16}, %zmm20, %zmm10
        vfmadd231ps     1868(%rcx,%r11,4){1to16}, %zmm20, %zmm9
        vfmadd231ps     1932(%rcx,%r11,4){1to16}, %zmm20, %zmm8
        vfmadd231ps     1996(%rcx,%r11,4){1to16}, %zmm20, %zmm7
        vfmadd231ps     2060(%rcx,%r11,4){1to16}, %zmm20, %zmm6
        vfmadd231ps     2124(%rcx,%r11,4){1to16}, %zmm20, %zmm5
        vfmadd231ps     2188(%rcx,%r11,4){1to16}, %zmm20, %zmm4
        vfmadd231ps     2252(%rcx,%r11,4){1to16}, %zmm20, %zmm3
        addq    $2, %r11
        subq    $-128, %rsi
        cmpq    $14, %r11
        jb      .LBB0_22
        vmovaps %zmm18, (%rcx)
        vmovaps %zmm17, 64(%rcx)
        vmovaps %zmm16, 128(%rcx)
        vmovaps %zmm15, 192(%rcx)
        vmovaps %zmm14, 256(%rcx)
        vmovaps %zmm13, 320(%rcx)
        vmovaps %zmm12, 384(%rcx)
        vmovaps %zmm11, 448(%rcx)
        vmovaps %zmm10, 512(%rcx)
        vmovaps %zmm9, 576(%rcx)
        vmovaps %zmm8, 640(%rcx)
        vmovaps %zmm7, 704(%rcx)
        vmovaps %zmm6, 768(%rcx)
        vmovaps %zmm5, 832(%rcx)
        vmovaps %zmm4, 896(%rcx)
        vmovaps %zmm3, 960(%rcx)
        movq    -112(%rsp), %rsi
        movl    (%rsi), %esi
        cmpq    %r13, %r9
        movq    16(%rsp), %rdx
        movq    8(%rsp), %rbx
        movq    32(%rsp), %r14
        jge     .LBB0_25
        addq    -104(%rsp), %r14
        addq    $64, %r8
        addq    $64, %rax
        testl   %esi, %esi
        je      .LBB0_11
.LBB0_25:
        movq    -96(%rsp), %r11
        movq    -72(%rsp), %r10
        movq    -80(%rsp), %r8
        movq    -88(%rsp), %rsi
        testq   %r10, %r10
        jns     .LBB0_27
        jmp     .LBB0_32
.LBB0_9:
        movq    %r8, %rbp
        negq    %rbp
        movq    -56(%rsp), %rdi
        subq    %r8, %rdi
        movq    -120(%rsp), %rsi
        subq    %r10, %rsi
        testq   %r10, %r10
        js      .LBB0_32
.LBB0_27:
        cmpq    $16, %rsi
        jl      .LBB0_32
        testq   %r8, %r8
        js      .LBB0_32
        cmpq    $16, %rdi
        jl      .LBB0_32
        movq    -104(%rsp), %rax
        imulq   %rbx, %rax
        shlq    $6, %rbx
        orq     $16, %rbx
        imulq   -120(%rsp), %rbx
        addq    -64(%rsp), %rdx
        xorl    %esi, %esi
.LBB0_31:
        vmovaps (%rcx,%rsi), %zmm3
        prefetcht0      (%rdx,%rbx)
        vmovups %zmm3, (%rdx,%rax)
        addq    $64, %rsi
        addq    %r15, %rdx
        cmpq    $1024, %rsi
        jne     .LBB0_31
        jmp     .LBB0_34
.LBB0_32:
        movq    %rsi, %rax
        sarq    $63, %rax
        andnq   %rsi, %rax, %rax
        cmpq    $16, %rax
        movl    $16, %r8d
        cmovgeq %r8, %rax
        negq    %r10
        movq    %r10, %rsi
        sarq    $63, %rsi
        andnq   %r10, %rsi, %rsi
        cmpq    $16, %rsi
        cmovgeq %r8, %rsi
        vpbroadcastd    %esi, %zmm3
        vpcmpltd        %zmm0, %zmm3, %k1
        vpbroadcastd    %eax, %zmm3
        vpcmpgtd        %zmm2, %zmm3, %k0 {%k1}
        movq    -104(%rsp), %rax
        imulq   %rbx, %rax
        shlq    $6, %rbx
        orq     $16, %rbx
        imulq   -120(%rsp), %rbx
        addq    -64(%rsp), %rdx
        movq    %rcx, %rsi
        xorl    %r8d, %r8d
.LBB0_33:
        cmpq    %rbp, %r8
        setge   %r9b
        cmpq    %r8, %rdi
        setg    %r10b
        andb    %r9b, %r10b
        prefetcht0      (%rdx,%rbx)
        vmovaps (%rsi), %zmm3
        movzbl  %r10b, %r9d
        negl    %r9d
        kmovd   %r9d, %k1
        kandw   %k0, %k1, %k1
        vmovups %zmm3, (%rdx,%rax) {%k1}
        incq    %r8
        addq    $64, %rsi
        addq    %r15, %rdx
        cmpq    $16, %r8
        jne     .LBB0_33
.LBB0_34:
        movq    (%rsp), %rsi
        incq    %rsi
        movq    -112(%rsp), %rax
        movl    (%rax), %eax
        cmpq    %r11, %rsi
        movq    -8(%rsp), %rdi
        jge     .LBB0_36
        testl   %eax, %eax
        je      .LBB0_3
.LBB0_36:
        xorl    %eax, %eax
        movq    -112(%rsp), %rcx
        cmpl    $0, (%rcx)
        setne   %al
        addq    $48, %rsp
        popq    %rbx
        popq    %r12
        popq    %r13
        popq    %r14
        popq    %r15
        popq    %rbp
        vzeroupper
        retq
.rodata
01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00 05 00 00 00 06 00 00 00 07 00 00 00 08 00 00 00
09 00 00 00 0a 00 00 00 0b 00 00 00 0c 00 00 00 0d 00 00 00 0e 00 00 00 0f 00 00 00 10 00 00 00
00 00 00 00 01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00 05 00 00 00 06 00 00 00 07 00 00 00
08 00 00 00 09 00 00 00 0a 00 00 00 0b 00 00 00 0c 00 00 00 0d 00 00 00 0e 00 00 00 0f 00 00 00
launch (0, 1, 1, False, False), memory (0, 3840), slots [(0, 0, 'A.shape[0]', 0), (0, 0, 'A.shape[0]', 0), (0, 0, 'A.shape[1]', 0), (0, 0, 'A.shape[1]', 0), (0, 0, 'B.shape[1]', 0), (0, 0, 'B.shape[1]', 0), (0, 0, '', 0), (1, 0, '', 0), (2, 0, '', 0)], windows []
